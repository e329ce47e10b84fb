"""Reads the LoCoMo data set for the suite `memory`: turns, questions, evidence, scores.

The user of the benchmark provides the file (locomo10.json of snap-research/LoCoMo, or some of
its conversations; CC BY-NC 4.0). The repository contains no part of it.
"""

import datetime
import json
import re

DEPTHS = [5, 10, 20]
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}


def read(path):
    """Return the conversations and the number of omitted questions."""
    conversations = [conversation(it) for it in json.loads(path.read_text())]
    usable_questions = sum(len(c["questions"]) for c in conversations)
    return conversations, sum(c["total"] for c in conversations) - usable_questions


def conversation(sample):
    sessions = [session for session in sessions_of(sample["conversation"]) if session["turns"]]
    known = {turn["id"] for session in sessions for turn in session["turns"]}
    questions = []
    for qa in sample["qa"]:
        evidence = usable(qa.get("evidence") or [], known)
        if evidence:
            questions.append(
                {"text": qa["question"], "category": qa["category"], "evidence": evidence})
    return {
        "user": sample["sample_id"],
        "sessions": sessions,
        "questions": questions,
        "total": len(sample["qa"]),
        # The time of the questions is that of the last session.
        "asked": max(session["time"] for session in sessions),
    }


def sessions_of(conversation):
    """Yield the sessions in order. The text of a turn includes the caption of its picture."""
    names = (re.fullmatch(r"session_(\d+)", name) for name in conversation)
    for name in sorted((n for n in names if n), key=lambda n: int(n[1])):
        message = conversation[name[0]]
        time = seconds(conversation[f"{name[0]}_date_time"])
        yield {"id": name[0], "time": time, "turns": [turn(it) for it in message]}


def turn(message):
    caption = message.get("blip_caption", "")
    text = f"{message['text']} {caption}".strip()
    return {"id": message["dia_id"], "author": message["speaker"], "text": text}


def seconds(text):
    """Convert "1:56 pm on 8 May, 2023", read as UTC, to seconds since 1970."""
    moment = datetime.datetime.strptime(text, "%I:%M %p on %d %B, %Y")
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def usable(evidence, known):
    """Return the existing turns that the evidence names. An entry may name several or have a typo."""
    named = (match for text in evidence for match in re.findall(r"D:?(\d+):(\d+)", text))
    ids = dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in named)
    return [id for id in ids if id in known]


def scores(ranked):
    """Return means over pairs (evidence, found): recall and hit rate at each depth, and MRR."""
    recall, hit, reciprocal = [0.0] * len(DEPTHS), [0.0] * len(DEPTHS), 0.0
    for evidence, found in ranked:
        places = [found.index(id) + 1 for id in evidence if id in found]
        for at, depth in enumerate(DEPTHS):
            within = sum(place <= depth for place in places)
            recall[at] += within / len(evidence)
            hit[at] += within > 0
        reciprocal += 1 / min(places) if places else 0
    return [value / len(ranked) for value in [*recall, *hit, reciprocal]]
