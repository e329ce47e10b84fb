"""Record the JSON that the real google-adk package writes for events and sessions.

Run inside a virtual environment that has some google-adk version:

    python record.py OUTDIR

It builds events and sessions with the classes of that package and writes
OUTDIR/<version>/<nn>-<name>.json and OUTDIR/<version>/session-<name>.json.

Each file holds:
  name   the name of the case
  camel  the HTTP form, the bytes of model_dump_json(exclude_none, by_alias)
  snake  the storage form, the bytes of model_dump_json(exclude_none)
  again  only if reading a form back and writing it does not give the recorded
         text: what the package writes then, as "<written>_from_<read>",
         or a string that starts with "error:"

Ids and times are fixed, so two runs give the same files. Cases that the
installed version cannot build are skipped with a printed line.
"""

import datetime
import json
import os
import shutil
import sys
import types as pytypes
import warnings

# The order of a set and the derived credential key of old versions follow the
# hash seed, so run again under a fixed one.
if os.environ.get("PYTHONHASHSEED") != "0":
    env = dict(os.environ, PYTHONHASHSEED="0")
    os.execve(sys.executable, [sys.executable] + sys.argv, env)

warnings.simplefilter("ignore")

from importlib.metadata import version as package_version

from fastapi.openapi import models as openapi
from google.adk.auth import auth_credential as cred
from google.adk.auth import auth_schemes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.flows.llm_flows import functions as flow
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types as t

# Bytes whose base64 contains both characters in which the two alphabets differ.
TRICKY = bytes([0xFB, 0xFF, 0xFE, 0x3E, 0x3F, 0x00, 0x10])
BIG = 123456789012345678901234567890

CASES = []


def case(name, build):
    """Add a case. build() gives the fields of an Event, or an Event."""
    CASES.append((name, build))


def model(*parts, **more):
    return t.Content(role="model", parts=list(parts), **more)


def user(*parts):
    return t.Content(role="user", parts=list(parts))


def text(value, **more):
    return t.Part(text=value, **more)


def call(**fields):
    return t.Part(function_call=t.FunctionCall(**fields))


def answer(**fields):
    return t.Part(function_response=t.FunctionResponse(**fields))


def acts(**fields):
    return {"actions": EventActions(**fields)}


# ---- text and parts

case("plain-text-user", lambda: dict(author="user", content=user(text("Hello"))))
case("plain-text-model", lambda: dict(content=model(text("Hi, how can I help?"))))
case(
    "several-parts",
    lambda: dict(content=model(text("one"), text("two"), text("three"))),
)
case("empty-text", lambda: dict(content=model(text(""))))
case("no-content", lambda: dict())
case("content-without-parts", lambda: dict(content=t.Content(role="model")))
case("content-empty-parts", lambda: dict(content=model()))
case("content-without-role", lambda: dict(content=t.Content(parts=[text("x")])))
case("empty-part", lambda: dict(content=model(t.Part(), text("after"))))
case(
    "text-unicode",
    lambda: dict(
        content=model(
            text("Grüße, 世界, здравствуй, مرحبا"),
            text("emoji 😀 family 👨‍👩‍👧 flag 🇳🇱"),
            text("combining e\u0301, line\u2028sep, bom\ufeff, last\U0010ffff"),
        )
    ),
)
case(
    "text-escapes",
    lambda: dict(
        content=model(
            text('quote " back \\ slash / tab \t nl \n cr \r'),
            text("bs \b ff \f esc \x1b unit \x1f del \x7f c1 \x85"),
            text("nul \x00 inside"),
            text("<script>&amp;'</script>"),
        )
    ),
)
case(
    "all-control-characters",
    lambda: dict(content=model(text("".join(chr(c) for c in range(0x20))))),
)
case(
    "thought",
    lambda: dict(
        content=model(text("Let me think.", thought=True), text("Done.", thought=False))
    ),
)
case(
    "thought-signature",
    lambda: dict(
        content=model(
            t.Part(text="x", thought=True, thought_signature=TRICKY),
            t.Part(thought_signature=b"\xff"),
            t.Part(thought_signature=b""),
            t.Part(
                function_call=t.FunctionCall(name="f", args={}),
                thought_signature=b"\xfb\xef\xbe",
            ),
        )
    ),
)
case(
    "all-bytes",
    lambda: dict(
        content=model(
            t.Part(
                inline_data=t.Blob(
                    mime_type="application/octet-stream", data=bytes(range(256))
                )
            )
        )
    ),
)

# ---- function calls and responses

ARGS = {
    "city": "Paris",
    "maxResults": 3,
    "max_results": 4,
    "MixedCase_key": True,
    "none": None,
    "empty": {},
    "emptyList": [],
    "nested": {"innerKey": {"inner_key": [1, None, {"deepKey": None}]}},
}

case(
    "function-call",
    lambda: dict(
        content=model(call(id="adk-0001", name="get_weather", args={"city": "Paris"})),
        long_running_tool_ids=set(),
    ),
)
case(
    "function-call-args",
    lambda: dict(content=model(call(id="call-1", name="search", args=ARGS))),
)
case(
    "function-call-numbers",
    lambda: dict(
        content=model(
            call(
                id="call-1",
                name="sum",
                args={
                    "int": 1,
                    "float": 1.0,
                    "zero": 0,
                    "floatZero": 0.0,
                    "minusZero": -0.0,
                    "negative": -7,
                    "big": BIG,
                    "negativeBig": -BIG,
                    "u64": 18446744073709551615,
                    "u64next": 18446744073709551616,
                    "i64": -9223372036854775808,
                    "tenth": 0.1,
                    "third": 1 / 3,
                    "e15": 1e15,
                    "e16": 1e16,
                    "e17": 1.5e17,
                    "e21": 1e21,
                    "e22": 1e22,
                    "e23": 1e23,
                    "e100": 1e100,
                    "max": 1.7976931348623157e308,
                    "em3": 0.001,
                    "em4": 0.0001,
                    "em5": 0.00001,
                    "em6": 0.000001,
                    "em7": 1e-7,
                    "digits": 1.2345e-6,
                    "tiny": 5e-324,
                    "true": True,
                },
            )
        )
    ),
)
case(
    "function-calls-parallel",
    lambda: dict(
        content=model(
            text("Two calls."),
            call(id="call-1", name="a", args={"x": 1}),
            call(id="call-2", name="b"),
            call(name="no_id", args={}),
        ),
        long_running_tool_ids=set(),
    ),
)
case(
    "function-call-partial-args",
    lambda: dict(
        partial=True,
        content=model(
            call(
                id="call-1",
                name="stream",
                will_continue=True,
                partial_args=[
                    t.PartialArg(json_path="$.a", string_value="x", will_continue=True),
                    t.PartialArg(json_path="$.b", number_value=2),
                    t.PartialArg(json_path="$.c", bool_value=False),
                    t.PartialArg(json_path="$.d", null_value="NULL_VALUE"),
                ],
            )
        ),
    ),
)
case(
    "function-call-args-python-values",
    lambda: dict(
        content=model(
            call(
                id="call-1",
                name="odd",
                args={
                    "bytes": TRICKY,
                    "tuple": (1, 2),
                    "date": datetime.date(2024, 2, 29),
                    "utc": datetime.datetime(
                        2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc
                    ),
                    "naive": datetime.datetime(2024, 1, 2, 3, 4, 5, 678900),
                    "delta": datetime.timedelta(hours=1, seconds=1.5),
                    "model": t.Blob(mime_type="a/b", data=TRICKY),
                    "enum": t.FinishReason.STOP,
                    "inner": {1: "int key", True: "bool key", 1.5: "float key"},
                },
            )
        )
    ),
)
case(
    "function-response",
    lambda: dict(
        content=user(
            answer(id="adk-0001", name="get_weather", response={"result": "sunny"})
        )
    ),
)
case(
    "function-response-nested",
    lambda: dict(
        content=user(
            answer(
                id="call-1",
                name="search",
                response={
                    "result": [
                        {"fooBar": 1, "foo_bar": 1.0, "none": None},
                        [],
                        [[None]],
                        "text",
                        BIG,
                    ],
                    "functionCall": {"partMetadata": {"mime_type": "x"}},
                    "inline_data": {"mime_type": "x", "mimeType": "y"},
                },
            ),
            answer(id="call-2", name="nothing", response={}),
            answer(id="call-3", name="absent"),
        )
    ),
)
case(
    "function-response-scheduling",
    lambda: dict(
        content=user(
            answer(
                id="call-1",
                name="slow",
                will_continue=True,
                scheduling=t.FunctionResponseScheduling.WHEN_IDLE,
                response={"status": "pending"},
            ),
            answer(
                id="call-1",
                name="slow",
                will_continue=False,
                scheduling="SILENT",
                response={"status": "done"},
            ),
        )
    ),
)
case(
    "function-response-parts",
    lambda: dict(
        content=user(
            answer(
                id="call-1",
                name="chart",
                response={"result": "see image"},
                parts=[
                    t.FunctionResponsePart(
                        inline_data=t.FunctionResponseBlob(
                            mime_type="image/png", data=TRICKY, display_name="Chart"
                        )
                    ),
                    t.FunctionResponsePart(
                        file_data=t.FunctionResponseFileData(
                            file_uri="gs://bucket/chart.png",
                            mime_type="image/png",
                            display_name="Chart",
                        )
                    ),
                ],
            )
        )
    ),
)
case(
    "function-response-error",
    lambda: dict(
        content=user(answer(id="call-1", name="f", response={"error": "no such tool"}))
    ),
)

# ---- media, code, tools

case(
    "inline-data",
    lambda: dict(
        author="user",
        content=user(
            t.Part(
                inline_data=t.Blob(
                    mime_type="image/png", data=TRICKY, display_name="Pixel"
                )
            ),
            t.Part(inline_data=t.Blob(mime_type="audio/pcm;rate=16000", data=b"")),
        ),
    ),
)
case(
    "file-data",
    lambda: dict(
        author="user",
        content=user(
            t.Part(
                file_data=t.FileData(
                    file_uri="gs://bucket/a.pdf",
                    mime_type="application/pdf",
                    display_name="A",
                )
            ),
            t.Part(file_data=t.FileData(file_uri="https://example.com/b")),
        ),
    ),
)
case(
    "video-metadata",
    lambda: dict(
        author="user",
        content=user(
            t.Part(
                file_data=t.FileData(
                    file_uri="gs://bucket/v.mp4", mime_type="video/mp4"
                ),
                video_metadata=t.VideoMetadata(
                    start_offset="1.5s", end_offset="10s", fps=2
                ),
            )
        ),
    ),
)
case(
    "executable-code",
    lambda: dict(
        content=model(
            t.Part(
                executable_code=t.ExecutableCode(
                    code='print("hi")\n', language=t.Language.PYTHON
                )
            ),
            t.Part(
                code_execution_result=t.CodeExecutionResult(
                    outcome=t.Outcome.OUTCOME_OK, output="hi\n"
                )
            ),
        )
    ),
)
case(
    "executable-code-ids",
    lambda: dict(
        content=model(
            t.Part(
                executable_code=t.ExecutableCode(
                    id="code-1", code="1/0", language="PYTHON"
                )
            ),
            t.Part(
                code_execution_result=t.CodeExecutionResult(
                    id="code-1",
                    outcome=t.Outcome.OUTCOME_FAILED,
                    output="ZeroDivisionError",
                )
            ),
        )
    ),
)
case(
    "media-resolution",
    lambda: dict(
        author="user",
        content=user(
            t.Part(
                inline_data=t.Blob(mime_type="image/png", data=b"png"),
                media_resolution=t.PartMediaResolution(
                    level=t.PartMediaResolutionLevel.MEDIA_RESOLUTION_HIGH,
                    num_tokens=1120,
                ),
            )
        ),
    ),
)
case(
    "part-metadata",
    lambda: dict(
        content=model(
            t.Part(
                text="x",
                part_metadata={
                    "fooBar": {"foo_bar": None},
                    "list": [1, 1.0],
                    "part_metadata": {"mimeType": 1, "mime_type": 2},
                },
            )
        )
    ),
)
case(
    "tool-call-parts",
    lambda: dict(
        content=model(
            t.Part(
                tool_call=t.ToolCall(
                    id="tc-1",
                    tool_type=t.ToolType.GOOGLE_SEARCH_WEB,
                    args={"searchQuery": "x", "max_results": None},
                )
            ),
            t.Part(
                tool_response=t.ToolResponse(
                    id="tc-1",
                    tool_type=t.ToolType.GOOGLE_SEARCH_WEB,
                    response={"resultList": [{"page_title": "t"}], "none": None},
                )
            ),
        )
    ),
)
case(
    "part-audio-transcription",
    lambda: dict(
        content=model(
            t.Part(
                inline_data=t.Blob(mime_type="audio/wav", data=b"RIFF"),
                audio_transcription=t.Transcription(
                    text="good day",
                    finished=True,
                    language_code="en-GB",
                    speaker_label="spk_1",
                    start_offset="0s",
                    end_offset="1.2s",
                    words=[
                        t.WordInfo(word="good", start_offset="0s", end_offset="0.5s"),
                        t.WordInfo(word="day", start_offset="0.6s", end_offset="1.2s"),
                    ],
                ),
            )
        )
    ),
)
case(
    "part-media-processing",
    lambda: dict(
        author="user",
        content=user(
            t.Part(
                inline_data=t.Blob(mime_type="video/mp4", data=b"mp4"),
                media_processing=t.MediaProcessing.STATIC,
            ),
            answer(
                id="call-1",
                name="clip",
                response={},
                parts=[
                    t.FunctionResponsePart(
                        inline_data=t.FunctionResponseBlob(
                            mime_type="video/mp4", data=b"mp4"
                        ),
                        media_processing=t.MediaProcessing.AGENTIC,
                    )
                ],
            ),
        ),
    ),
)
case(
    "part-speech-metadata",
    lambda: dict(
        content=model(
            t.Part(
                text="Hello.",
                speech_metadata=t.SpeechMetadata(speaker="Ann", style="calm"),
            )
        )
    ),
)

# ---- fields of the model response

case(
    "grounding-web",
    lambda: dict(
        content=model(text("Grounded.")),
        grounding_metadata=t.GroundingMetadata(
            web_search_queries=["rust adk", "größe"],
            grounding_chunks=[
                t.GroundingChunk(
                    web=t.GroundingChunkWeb(
                        domain="example.com", title="Ex", uri="https://example.com/a"
                    )
                )
            ],
            grounding_supports=[
                t.GroundingSupport(
                    confidence_scores=[0.9, 1, 0.25],
                    grounding_chunk_indices=[0],
                    segment=t.Segment(
                        start_index=0, end_index=9, part_index=0, text="Grounded."
                    ),
                )
            ],
            search_entry_point=t.SearchEntryPoint(
                rendered_content="<div>x</div>", sdk_blob=TRICKY
            ),
            retrieval_metadata=t.RetrievalMetadata(
                google_search_dynamic_retrieval_score=0.5
            ),
        ),
    ),
)
case(
    "grounding-retrieved-context",
    lambda: dict(
        grounding_metadata=t.GroundingMetadata(
            retrieval_queries=["q"],
            grounding_chunks=[
                t.GroundingChunk(
                    retrieved_context=t.GroundingChunkRetrievedContext(
                        document_name="projects/p/doc",
                        rag_chunk=t.RagChunk(
                            page_span=t.RagChunkPageSpan(first_page=1, last_page=2),
                            text="chunk",
                        ),
                        text="text",
                        title="title",
                        uri="gs://b/d",
                    )
                )
            ],
        ),
    ),
)
case(
    "grounding-maps",
    lambda: dict(
        grounding_metadata=t.GroundingMetadata(
            google_maps_widget_context_token="token",
            grounding_chunks=[
                t.GroundingChunk(
                    maps=t.GroundingChunkMaps(
                        place_id="places/1",
                        text="A cafe",
                        title="Cafe",
                        uri="https://maps.example.com/1",
                        place_answer_sources=t.GroundingChunkMapsPlaceAnswerSources(
                            flag_content_uri="https://maps.example.com/flag",
                            review_snippets=[
                                t.GroundingChunkMapsPlaceAnswerSourcesReviewSnippet(
                                    review="Good",
                                    review_id="r1",
                                    title="Nice",
                                    google_maps_uri="https://maps.example.com/r1",
                                    relative_publish_time_description="a day ago",
                                    author_attribution=t.GroundingChunkMapsPlaceAnswerSourcesAuthorAttribution(
                                        display_name="Ann",
                                        photo_uri="https://example.com/p",
                                        uri="https://example.com/ann",
                                    ),
                                )
                            ],
                        ),
                    )
                )
            ],
        ),
    ),
)
case(
    "grounding-newer-fields",
    lambda: dict(
        grounding_metadata=t.GroundingMetadata(
            image_search_queries=["cat"],
            grounding_chunks=[
                t.GroundingChunk(
                    image=t.GroundingChunkImage(
                        source_uri="https://example.com",
                        image_uri="https://example.com/i.png",
                        title="i",
                        domain="example.com",
                    )
                ),
                t.GroundingChunk(
                    maps=t.GroundingChunkMaps(
                        route=t.GroundingChunkMapsRoute(
                            distance_meters=1200,
                            duration="300s",
                            encoded_polyline="_p~iF~ps|U",
                        )
                    )
                ),
                t.GroundingChunk(
                    retrieved_context=t.GroundingChunkRetrievedContext(
                        file_search_store="stores/1",
                        page_number=3,
                        media_id="m",
                        custom_metadata=[
                            t.GroundingChunkCustomMetadata(key="n", numeric_value=1),
                            t.GroundingChunkCustomMetadata(key="s", string_value="v"),
                            t.GroundingChunkCustomMetadata(
                                key="l",
                                string_list_value=t.GroundingChunkStringList(
                                    values=["a", "b"]
                                ),
                            ),
                        ],
                    )
                ),
            ],
            grounding_supports=[t.GroundingSupport(rendered_parts=[0, 1])],
            source_flagging_uris=[
                t.GroundingMetadataSourceFlaggingUri(
                    flag_content_uri="https://example.com/f", source_id="s"
                )
            ],
        ),
    ),
)
case(
    "grounding-empty",
    lambda: dict(
        grounding_metadata=t.GroundingMetadata(
            grounding_chunks=[], search_entry_point=t.SearchEntryPoint()
        )
    ),
)
case(
    "usage-metadata",
    lambda: dict(
        model_version="gemini-2.5-flash",
        content=model(text("ok")),
        usage_metadata=t.GenerateContentResponseUsageMetadata(
            prompt_token_count=100,
            candidates_token_count=20,
            total_token_count=150,
            cached_content_token_count=64,
            thoughts_token_count=30,
            tool_use_prompt_token_count=5,
            traffic_type=t.TrafficType.ON_DEMAND,
            prompt_tokens_details=[
                t.ModalityTokenCount(modality=t.MediaModality.TEXT, token_count=90),
                t.ModalityTokenCount(modality=t.MediaModality.IMAGE, token_count=10),
            ],
            candidates_tokens_details=[
                t.ModalityTokenCount(modality="TEXT", token_count=20)
            ],
            cache_tokens_details=[
                t.ModalityTokenCount(modality="AUDIO", token_count=64)
            ],
            tool_use_prompt_tokens_details=[
                t.ModalityTokenCount(modality="DOCUMENT", token_count=5)
            ],
        ),
    ),
)
case(
    "usage-metadata-small",
    lambda: dict(
        usage_metadata=t.GenerateContentResponseUsageMetadata(
            prompt_token_count=0, total_token_count=0
        )
    ),
)
case(
    "citation-metadata",
    lambda: dict(
        citation_metadata=t.CitationMetadata(
            citations=[
                t.Citation(
                    start_index=0,
                    end_index=10,
                    license="MIT",
                    title="T",
                    uri="https://example.com",
                    publication_date=t.GoogleTypeDate(year=2024, month=2, day=29),
                ),
                t.Citation(),
            ]
        )
    ),
)
case(
    "logprobs",
    lambda: dict(
        avg_logprobs=-0.123456789,
        logprobs_result=t.LogprobsResult(
            chosen_candidates=[
                t.LogprobsResultCandidate(log_probability=-0.5, token="a", token_id=7),
                t.LogprobsResultCandidate(log_probability=0, token="", token_id=0),
            ],
            top_candidates=[
                t.LogprobsResultTopCandidates(
                    candidates=[
                        t.LogprobsResultCandidate(
                            log_probability=-1e-7, token="é", token_id=8
                        )
                    ]
                ),
                t.LogprobsResultTopCandidates(),
            ],
        ),
    ),
)
case(
    "logprobs-sum",
    lambda: dict(
        avg_logprobs=-1, logprobs_result=t.LogprobsResult(log_probability_sum=-12.5)
    ),
)
case(
    "finish-reason-stop",
    lambda: dict(content=model(text("end")), finish_reason=t.FinishReason.STOP),
)
case(
    "finish-reason-safety",
    lambda: dict(
        finish_reason=t.FinishReason.SAFETY,
        error_code="SAFETY",
        error_message="The answer was blocked.",
    ),
)
case("finish-reason-unknown", lambda: dict(finish_reason="A_NEW_REASON"))
case(
    "error",
    lambda: dict(error_code="UNKNOWN_ERROR", error_message='Line 1\nLine "2" é'),
)
case("error-empty-message", lambda: dict(error_code="500", error_message=""))
case("partial-true", lambda: dict(partial=True, content=model(text("Hel"))))
case(
    "partial-false",
    lambda: dict(
        partial=False,
        turn_complete=False,
        interrupted=False,
        content=model(text("Hello")),
    ),
)
case("turn-complete", lambda: dict(turn_complete=True))
case("interrupted", lambda: dict(interrupted=True, turn_complete=True))
case("long-running-empty", lambda: dict(long_running_tool_ids=set()))
case(
    "long-running-several",
    lambda: dict(
        content=model(
            call(id="b", name="x", args={}),
            call(id="a", name="x", args={}),
            call(id="c", name="x", args={}),
        ),
        long_running_tool_ids={"c", "a", "B", "b", "10", "9", "é"},
    ),
)
case(
    "custom-metadata",
    lambda: dict(
        custom_metadata={
            "fooBar": 1,
            "foo_bar": 1.0,
            "FOO": None,
            "": "empty key",
            "ключ": "значение",
            "nested": {"innerKey": {"inner_key": None}, "list": [None, {"aB": None}]},
            "customMetadata": {"stateDelta": {}, "state_delta": {}},
            "big": BIG,
            "false": False,
        }
    ),
)
case(
    "custom-metadata-internal",
    lambda: dict(
        author="user",
        content=user(text("restored")),
        custom_metadata={"__adk_internal_restored_event": True, "keep": "me"},
    ),
)
case("custom-metadata-empty", lambda: dict(custom_metadata={}))
case(
    "not-a-number",
    lambda: dict(
        avg_logprobs=float("nan"),
        custom_metadata={
            "nan": float("nan"),
            "inf": float("inf"),
            "minusInf": float("-inf"),
        },
    ),
)
case(
    "transcriptions",
    lambda: dict(
        input_transcription=t.Transcription(text="hello", finished=False),
        output_transcription=t.Transcription(text="hi there", finished=True),
    ),
)
case("transcription-empty", lambda: dict(input_transcription=t.Transcription()))
case(
    "transcription-language",
    lambda: dict(
        output_transcription=t.Transcription(
            text="hallo", finished=True, language_code="nl"
        )
    ),
)
case(
    "live-session-resumption",
    lambda: dict(
        live_session_resumption_update=t.LiveServerSessionResumptionUpdate(
            new_handle="handle-1", resumable=True, last_consumed_client_message_index=12
        )
    ),
)
case(
    "cache-metadata",
    lambda: dict(
        cache_metadata=CacheMetadata(
            cache_name="projects/p/locations/l/cachedContents/1",
            expire_time=1700003600.5,
            fingerprint="abc123",
            invocations_used=2,
            contents_count=7,
            created_at=1700000000,
        )
    ),
)
case(
    "cache-metadata-fingerprint-only",
    lambda: dict(cache_metadata=CacheMetadata(fingerprint="abc", contents_count=3)),
)
case("interaction-id", lambda: dict(interaction_id="v1_abc"))
case(
    "turn-complete-reason",
    lambda: dict(
        turn_complete=True, turn_complete_reason=t.TurnCompleteReason.RESPONSE_REJECTED
    ),
)
case(
    "interaction-status",
    lambda: dict(
        interaction_id="v1_abc", interaction_status=t.InteractionStatus.REQUIRES_ACTION
    ),
)
case(
    "live-session-and-go-away",
    lambda: dict(
        live_session_id="live-1", go_away=t.LiveServerGoAway(time_left="9.5s")
    ),
)
case(
    "voice-activity",
    lambda: dict(
        voice_activity=t.VoiceActivity(
            voice_activity_type=t.VoiceActivityType.ACTIVITY_START, audio_offset="0.25s"
        )
    ),
)
case("environment-id", lambda: dict(environment_id="env-1"))

# ---- fields of the event

case("branch", lambda: dict(branch="root.child.grandchild", content=model(text("b"))))
case(
    "node-info",
    lambda: dict(
        node_info={
            "path": "wf@1/step@2",
            "output_for": ["wf@1/step@2", "wf@1"],
            "message_as_output": True,
        },
        content=model(text("as output")),
    ),
)
case("output-text", lambda: dict(output="done", node_info={"path": "wf@1/a@1"}))
case("output-number", lambda: dict(output=1.0))
case("output-false", lambda: dict(output=False))
case(
    "output-object",
    lambda: dict(
        output={"fooBar": None, "foo_bar": {"aB": [1, 1.0, None]}, "nodeInfo": {}}
    ),
)
case("output-list", lambda: dict(output=[1, "two", None, {"thirdItem": 3}, []]))
case(
    "output-model-object",
    lambda: dict(output=t.Content(role="model", parts=[t.Part(thought_signature=TRICKY)])),
)
case("isolation-scope", lambda: dict(isolation_scope="adk-0001"))
case("timestamp-whole", lambda: dict(timestamp=1700000000))
case("timestamp-digits", lambda: dict(timestamp=1700000000.1234567))
case("timestamp-zero", lambda: dict(timestamp=0))

# ---- actions

case(
    "actions-skip-and-escalate",
    lambda: acts(skip_summarization=True, escalate=True),
)
case("actions-false", lambda: acts(skip_summarization=False, escalate=False))
case(
    "state-delta-scopes",
    lambda: acts(
        state_delta={
            "plain": 1,
            "app:theme": "dark",
            "user:name": "Ann",
            "temp:scratch": [1, 2],
            "other:prefix": True,
            "app:": "bare prefix",
        }
    ),
)
case(
    "state-delta-odd-keys",
    lambda: acts(
        state_delta={
            "": "empty key",
            "fooBar": 1,
            "foo_bar": 2,
            "FooBar": 3,
            "stateDelta": {"artifactDelta": {}, "artifact_delta": {}},
            "ключ": "значение",
            "😀": "emoji key",
            "with space": None,
            'quote"back\\slash': 1,
            "nul\x00key": 1,
            "__proto__": {"a": 1},
        }
    ),
)
case(
    "state-delta-values",
    lambda: acts(
        state_delta={
            "null": None,
            "nested": {"a": {"b": {"c": None, "dE": [None, {}]}}},
            "int": 1,
            "float": 1.0,
            "big": BIG,
            "tiny": 1e-7,
            "huge": 1e22,
            "text": "é\u2028\x00",
            "true": True,
            "list": [],
            "map": {},
            "nan": float("nan"),
            "date": datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
        }
    ),
)
case("state-delta-bytes", lambda: acts(state_delta={"ascii": b"hello", "utf8": "é".encode()}))
case(
    "artifact-delta",
    lambda: acts(artifact_delta={"report.pdf": 0, "user:logo_file.png": 3, "naïve": 1}),
)
case("transfer", lambda: acts(transfer_to_agent="billing_agent"))
case(
    "transfer-reason",
    lambda: acts(transfer_to_agent="billing_agent", transfer_reason="About an invoice."),
)
case(
    "tool-confirmations",
    lambda: acts(
        requested_tool_confirmations={
            "adk-0001": ToolConfirmation(
                hint="Delete it?", payload={"fileName": "a", "file_name": None, "n": 1.0}
            ),
            "call_two": ToolConfirmation(confirmed=True, payload=[1, None]),
            "callThree": ToolConfirmation(hint="é", payload="text"),
            "four": ToolConfirmation(),
        }
    ),
)
case(
    "compaction",
    lambda: dict(
        author="user",
        **acts(
            compaction=EventCompaction(
                start_timestamp=1700000000,
                end_timestamp=1700000100.25,
                compacted_content=model(
                    text("Summary."),
                    t.Part(thought_signature=TRICKY),
                    call(name="f", args={"fooBar": None}),
                ),
            )
        ),
    ),
)
case("end-of-agent", lambda: acts(end_of_agent=True))
case(
    "agent-state",
    lambda: acts(
        agent_state={
            "current_sub_agent": "step_two",
            "times_looped": 2,
            "camelKey": None,
            "nested": {"x_y": 1.0},
        }
    ),
)
case("agent-state-empty", lambda: acts(agent_state={}))
case(
    "rewind",
    lambda: dict(
        author="user",
        **acts(
            rewind_before_invocation_id="e-0002",
            state_delta={"gone": None, "kept": "old"},
            artifact_delta={"f.txt": 4},
        ),
    ),
)
case("route-bool", lambda: acts(route=True))
case("route-int", lambda: acts(route=2))
case("route-text", lambda: acts(route="next"))
case("route-list", lambda: acts(route=["a", 1, False]))
case(
    "ui-widgets",
    lambda: acts(
        render_ui_widgets=[
            dict(
                id="w1",
                provider="mcp",
                payload={"resourceUri": "ui://x", "resource_uri": None},
            ),
            dict(id="w2", provider="other"),
        ]
    ),
)
case(
    "set-model-response",
    lambda: acts(set_model_response={"fooBar": None, "foo_bar": [1.0]}),
)
case("set-model-response-text", lambda: acts(set_model_response="plain"))


# ---- auth


def api_key_config(**more):
    return AuthConfig(
        auth_scheme=openapi.APIKey(
            **{"in": openapi.APIKeyIn.header, "name": "X-API-Key", "description": "Key"}
        ),
        raw_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.API_KEY, api_key="secret"
        ),
        **more,
    )


def bearer_config():
    return AuthConfig(
        auth_scheme=openapi.HTTPBearer(bearerFormat="JWT"),
        exchanged_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.HTTP,
            http=cred.HttpAuth(
                scheme="bearer", credentials=cred.HttpCredentials(token="token")
            ),
        ),
        credential_key="bearer_key",
    )


def oauth2_config():
    return AuthConfig(
        auth_scheme=openapi.OAuth2(
            flows=openapi.OAuthFlows(
                authorizationCode=openapi.OAuthFlowAuthorizationCode(
                    authorizationUrl="https://example.com/auth",
                    tokenUrl="https://example.com/token",
                    refreshUrl="https://example.com/refresh",
                    scopes={"read_all": "Read", "writeAll": "Write"},
                ),
                clientCredentials=openapi.OAuthFlowClientCredentials(
                    tokenUrl="https://example.com/token"
                ),
                implicit=openapi.OAuthFlowImplicit(
                    authorizationUrl="https://example.com/auth"
                ),
                password=openapi.OAuthFlowPassword(
                    tokenUrl="https://example.com/token", scopes={}
                ),
            )
        ),
        raw_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.OAUTH2,
            oauth2=cred.OAuth2Auth(client_id="id", client_secret="secret"),
        ),
        exchanged_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.OAUTH2,
            oauth2=cred.OAuth2Auth(
                client_id="id",
                auth_uri="https://example.com/auth?state=s",
                state="s",
                redirect_uri="https://app.example.com/cb",
                auth_response_uri="https://app.example.com/cb?code=c",
                auth_code="c",
                access_token="at",
                refresh_token="rt",
                expires_at=1700003600,
                expires_in=3600,
                audience="aud",
            ),
        ),
        credential_key="oauth_key",
    )


def oidc_config():
    return AuthConfig(
        auth_scheme=auth_schemes.OpenIdConnectWithConfig(
            authorization_endpoint="https://example.com/auth",
            token_endpoint="https://example.com/token",
            userinfo_endpoint="https://example.com/me",
            revocation_endpoint="https://example.com/revoke",
            token_endpoint_auth_methods_supported=["client_secret_post"],
            grant_types_supported=["authorization_code"],
            scopes=["openid", "email"],
        ),
        raw_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.OPEN_ID_CONNECT,
            oauth2=cred.OAuth2Auth(client_id="id", client_secret="secret"),
        ),
        credential_key="oidc_key",
    )


def service_account_config():
    return AuthConfig(
        auth_scheme=openapi.OpenIdConnect(
            openIdConnectUrl="https://example.com/.well-known/openid-configuration"
        ),
        raw_auth_credential=cred.AuthCredential(
            auth_type=cred.AuthCredentialTypes.SERVICE_ACCOUNT,
            resource_ref="projects/1/resources/r",
            service_account=cred.ServiceAccount(
                scopes=["https://example.com/scope"],
                service_account_credential=cred.ServiceAccountCredential(
                    type_="service_account",
                    project_id="p",
                    private_key_id="kid",
                    private_key="not a key",
                    client_email="sa@example.com",
                    client_id="1",
                    auth_uri="https://example.com/auth",
                    token_uri="https://example.com/token",
                    auth_provider_x509_cert_url="https://example.com/certs",
                    client_x509_cert_url="https://example.com/cert",
                    universe_domain="example.com",
                ),
            ),
        ),
        credential_key="sa_key",
    )


def auth(**configs):
    return acts(requested_auth_configs=configs)


case("auth-api-key", lambda: auth(call_1=api_key_config(credential_key="api_key")))
case("auth-api-key-derived-name", lambda: auth(call_1=api_key_config()))
case("auth-http-bearer", lambda: auth(callTwo=bearer_config()))
case(
    "auth-http-basic",
    lambda: auth(
        c=AuthConfig(
            auth_scheme=openapi.HTTPBase(scheme="basic"),
            raw_auth_credential=cred.AuthCredential(
                auth_type=cred.AuthCredentialTypes.HTTP,
                http=cred.HttpAuth(
                    scheme="basic",
                    credentials=cred.HttpCredentials(username="u", password="p"),
                ),
            ),
            credential_key="basic_key",
        )
    ),
)
case("auth-oauth2", lambda: auth(c=oauth2_config()))
case("auth-oidc", lambda: auth(c=oidc_config()))
case("auth-service-account", lambda: auth(c=service_account_config()))
case(
    "auth-extra-keys",
    lambda: auth(
        c=AuthConfig(
            auth_scheme=openapi.HTTPBase(
                **{"scheme": "digest", "x-vendor": {"some_key": None}, "someKey": 1}
            ),
            credential_key="extra_key",
            extra_field={"fooBar": None, "foo_bar": 1},
            extraNone=None,
        )
    ),
)
case(
    "auth-oauth2-newer-fields",
    lambda: auth(
        c=AuthConfig(
            auth_scheme=openapi.OAuth2(flows=openapi.OAuthFlows()),
            raw_auth_credential=cred.AuthCredential(
                auth_type=cred.AuthCredentialTypes.OAUTH2,
                oauth2=known(
                    cred.OAuth2Auth,
                    client_id="id",
                    nonce="n",
                    id_token="jwt",
                    prompt="consent",
                    code_verifier="v",
                    code_challenge_method="S256",
                    token_endpoint_auth_method="client_secret_post",
                ),
            ),
            credential_key="oauth_key",
        )
    ),
)
case(
    "auth-http-additional-headers",
    lambda: auth(
        c=AuthConfig(
            auth_scheme=openapi.HTTPBearer(),
            raw_auth_credential=cred.AuthCredential(
                auth_type=cred.AuthCredentialTypes.HTTP,
                http=known(
                    cred.HttpAuth,
                    scheme="bearer",
                    credentials=cred.HttpCredentials(token="t"),
                    additional_headers={"X-Some_Header": "v"},
                ),
            ),
            credential_key="headers_key",
        )
    ),
)
case(
    "auth-custom-scheme",
    lambda: auth(
        c=AuthConfig(
            auth_scheme=auth_schemes.CustomAuthScheme(
                type_="vendor", some_setting={"a_b": 1}
            ),
            credential_key="custom_key",
        )
    ),
)


def known(cls, **fields):
    """Build a model that accepts unknown keys. Raise if it does not declare one of the fields."""
    for name in fields:
        if name not in cls.model_fields:
            raise AttributeError(f"{cls.__name__} has no field {name}")
    return cls(**fields)


def context():
    return pytypes.SimpleNamespace(
        invocation_id="e-0001",
        branch="root.helper",
        agent=pytypes.SimpleNamespace(name="helper"),
    )


def fix_calls(event):
    """Set fixed ids in the calls that the package generated."""
    ids = set()
    for number, one in enumerate(event.get_function_calls(), 1):
        one.id = f"adk-00000000-0000-4000-8000-{number:012d}"
        ids.add(one.id)
    event.long_running_tool_ids = ids
    return event


def credential_request():
    response = Event(
        author="helper",
        invocation_id="e-0001",
        content=user(answer(id="call_1", name="f", response={"status": "pending"})),
        actions=EventActions(
            requested_auth_configs={
                "call_1": oauth2_config(),
                "call_2": api_key_config(credential_key="api_key"),
                "call_3": oidc_config(),
            }
        ),
    )
    return fix_calls(flow.generate_auth_event(context(), response))


def confirmation_request():
    request = Event(
        author="helper",
        invocation_id="e-0001",
        content=model(
            call(id="call_1", name="delete_file", args={"fileName": "a", "some_key": None}),
            call(id="call_2", name="pay", args={"amount": 1.0}),
        ),
    )
    response = Event(
        author="helper",
        invocation_id="e-0001",
        content=user(answer(id="call_1", name="delete_file", response={"error": "ask"})),
        actions=EventActions(
            requested_tool_confirmations={
                "call_1": ToolConfirmation(hint="Sure?", payload={"some_key": None}),
                "call_2": ToolConfirmation(),
            }
        ),
    )
    return fix_calls(
        flow.generate_request_confirmation_event(context(), request, response)
    )


case("request-credential", credential_request)
case("request-confirmation", confirmation_request)
case(
    "answer-credential",
    lambda: dict(
        author="user",
        content=user(
            answer(
                id="adk-0001",
                name="adk_request_credential",
                response=bearer_config().model_dump(
                    mode="json", by_alias=True, exclude_none=True
                ),
            )
        ),
    ),
)
case(
    "answer-confirmation",
    lambda: dict(
        author="user",
        content=user(
            answer(
                id="adk-0001",
                name="adk_request_confirmation",
                response={"confirmed": True, "payload": {"some_key": None}},
            ),
            answer(
                id="adk-0002",
                name="adk_request_confirmation",
                response={"response": '{"confirmed": false}'},
            ),
        ),
    ),
)

# ---- everything at once

case(
    "whole-turn",
    lambda: dict(
        model_version="gemini-2.5-pro",
        content=model(
            t.Part(text="Thinking", thought=True, thought_signature=TRICKY),
            text("Answer"),
            call(id="adk-0009", name="go", args={"fooBar": {"baz_qux": None}}),
        ),
        partial=False,
        turn_complete=True,
        finish_reason="STOP",
        interrupted=False,
        custom_metadata={"a_b": {"cD": None}},
        usage_metadata=t.GenerateContentResponseUsageMetadata(total_token_count=3),
        avg_logprobs=-0.25,
        citation_metadata=t.CitationMetadata(citations=[]),
        branch="root.helper",
        long_running_tool_ids={"adk-0009"},
        actions=EventActions(
            state_delta={"user:x": {"y": None}},
            artifact_delta={"f": 1},
            end_of_agent=True,
            agent_state={"k": 1},
        ),
    ),
)


def build(number, make):
    """One event with a fixed id and time."""
    made = make()
    if isinstance(made, Event):
        made.id = event_id(number)
        made.timestamp = 1700000000.5 + number
        return made
    fields = dict(
        author="helper",
        invocation_id="e-0001",
        id=event_id(number),
        timestamp=1700000000.5 + number,
    )
    fields.update(made)
    unknown = [f for f in fields if f not in Event.model_fields]
    if unknown:
        raise AttributeError("Event has no field " + ", ".join(unknown))
    return Event(**fields)


def event_id(number):
    return f"00000000-0000-4000-8000-{number:012d}"


def sessions():
    """The recorded sessions, by name."""

    def one(number, name):
        return build(number, dict(CASES)[name])

    yield "empty", lambda: Session(id="s1", app_name="app", user_id="u1")
    yield "state", lambda: Session(
        id="s2",
        app_name="my_app",
        user_id="ann@example.com",
        state={
            "plain": 1,
            "float": 1.0,
            "none": None,
            "app:theme": {"darkMode": True, "dark_mode": None},
            "user:name": "Ann",
            "lastUpdateTime": 1,
            "last_update_time": 2,
            "big": BIG,
            "": [],
        },
        last_update_time=1700000000,
    )
    yield "events", lambda: Session(
        id="00000000-0000-4000-8000-0000000000ff",
        app_name="app",
        user_id="u1",
        state={"k": "v"},
        events=[
            one(1, "plain-text-user"),
            one(2, "thought-signature"),
            one(3, "function-call-args"),
            one(4, "function-response-nested"),
            one(5, "state-delta-values"),
            one(6, "auth-api-key"),
            one(7, "plain-text-model"),
        ],
        last_update_time=1700000007.5,
    )
    yield "unicode", lambda: Session(
        id="sé/ssion 😀",
        app_name="приложение",
        user_id='u"1\\',
        state={"ключ\x00": "знач\u2028ение"},
        events=[one(1, "text-unicode"), one(2, "text-escapes")],
        last_update_time=0.000001,
    )
    yield "bytes-in-free-maps", lambda: Session(
        id="s3",
        app_name="app",
        user_id="u1",
        state={"bytes": b"plain"},
        events=[one(1, "inline-data"), one(2, "state-delta-bytes")],
    )
    yield "bytes-not-text", lambda: Session(
        id="s4",
        app_name="app",
        user_id="u1",
        events=[one(1, "function-call-args-python-values")],
    )
    yield "bytes-not-text-in-state", lambda: Session(
        id="s5", app_name="app", user_id="u1", state={"bytes": TRICKY}
    )


def dump(thing, camel):
    return thing.model_dump_json(exclude_none=True, by_alias=camel)


def record(thing, name):
    """The text of one file."""
    forms = {"camel": dump(thing, True), "snake": dump(thing, False)}
    again = {}
    for read in forms:
        for written in forms:
            try:
                back = type(thing).model_validate_json(forms[read])
                text_again = dump(back, written == "camel")
            except Exception as error:
                first = " ".join(str(error).split())[:160]
                text_again = json.dumps("error: " + first)
            if text_again != forms[written]:
                again[f"{written}_from_{read}"] = text_again
    lines = [f'"name":{json.dumps(name)}']
    lines += [f'"{form}":{forms[form]}' for form in forms]
    if again:
        inner = ",\n".join(f'"{key}":{value}' for key, value in again.items())
        lines.append('"again":{\n' + inner + "\n}")
        print("not the same when read back:", name, ", ".join(again))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: python record.py OUTDIR")
    adk = package_version("google-adk")
    out = os.path.join(sys.argv[1], adk)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    count = {"event": 0, "session": 0}

    def save(kind, file, name, make):
        try:
            whole = record(make(), name)
        except Exception as error:
            print(f"skipped {kind} {name}: {' '.join(str(error).split())[:160]}")
            return
        json.loads(whole)
        with open(os.path.join(out, file), "w", encoding="utf-8", newline="\n") as f:
            f.write(whole)
        count[kind] += 1

    for number, (name, make) in enumerate(CASES, 1):
        save("event", f"{number:03d}-{name}.json", name, lambda: build(number, make))
    for name, make in sessions():
        save("session", f"session-{name}.json", name, make)
    with open(os.path.join(out, "packages.txt"), "w", encoding="utf-8") as f:
        for package in ("google-adk", "google-genai", "pydantic", "pydantic-core", "fastapi"):
            f.write(f"{package} {package_version(package)}\n")
    print(f"google-adk {adk}: {count['event']} events, {count['session']} sessions")


main()
