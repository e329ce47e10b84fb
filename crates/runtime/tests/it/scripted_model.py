"""A model for google-adk that answers with the replies of a script and records its requests."""

import json

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from pydantic import PrivateAttr


def dump(model):
    """Convert a pydantic model to its JSON on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class ScriptedModel(BaseLlm):
    """Answers each request with the next reply, and after the last reply with `final_text`.

    A reply has `responses` and optionally an `error`, which the model raises after them.
    """

    # Not fields, because pydantic copies fields.
    _replies: list = PrivateAttr()
    _requests: list = PrivateAttr()
    _describe: object = PrivateAttr()
    _final_text: str = PrivateAttr()

    def __init__(self, replies, requests, describe, final_text):
        """Append each request to `requests`, with the values that `describe` returns for its config."""
        super().__init__(model="gemini-scripted")
        self._replies = replies
        self._requests = requests
        self._describe = describe
        self._final_text = final_text

    async def generate_content_async(self, llm_request, stream=False):
        config = llm_request.config
        self._requests.append({
            "contents": [dump(content) for content in llm_request.contents],
            "instruction": config.system_instruction,
            **self._describe(config),
        })
        final = {"content": {"role": "model", "parts": [{"text": self._final_text}]}}
        reply = self._replies.pop(0) if self._replies else {"responses": [final]}
        for response in reply["responses"]:
            if stream or not response.get("partial"):
                yield LlmResponse.model_validate_json(json.dumps(response))
        if "error" in reply:
            raise RuntimeError(reply["error"])
