"""The shared parts of this peer: names, and the text of an event."""

APP, USER = "bench", "user-1"
WORDS = (
    "the model answers in plain words about rooms on high floors and quiet streets,"
    " adds what the guest asked before, and keeps the tone short and kind; then it"
    " offers two dates and waits for a reply from the user. "
)[:189]


def text(n):
    """Return the text of event n: 200 characters."""
    return f"{n:010} {WORDS}"
