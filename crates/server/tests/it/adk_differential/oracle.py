"""Google's server behind a pipe: one request per input line, one answer per output line."""

import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.cli.fast_api import get_fast_api_app
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from starlette.testclient import TestClient


class Echo(BaseLlm):
    """Echoes the last message, in chunks when streaming."""

    @classmethod
    def supported_models(cls):
        return ["echo"]

    async def generate_content_async(self, llm_request, stream=False):
        text = "".join(part.text or "" for part in llm_request.contents[-1].parts)
        if text.startswith("fail"):
            raise RuntimeError("out of service")

        def said(text, partial):
            content = types.Content(role="model", parts=[types.Part(text=text)])
            return LlmResponse(content=content, partial=partial)

        if stream:
            yield said("You said: ", True)
            yield said(text, True)
        yield said("You said: " + text, False if stream else None)


LLMRegistry.register(Echo)

memory = "memory://"
app = get_fast_api_app(
    agents_dir=sys.argv[1],
    session_service_uri=memory,
    artifact_service_uri=memory,
    memory_service_uri=memory,
    web=False,
    host="127.0.0.1",
    port=8000,
)
client = TestClient(
    app,
    base_url="http://127.0.0.1:8000",
    raise_server_exceptions=False,
    follow_redirects=False,
)
out = sys.stdout
sys.stdout = sys.stderr
for line in sys.stdin:
    asked = json.loads(line)
    headers = {"content-type": asked["kind"]} if asked["kind"] else {}
    answer = client.request(
        asked["method"],
        asked["path"],
        content=asked["body"].encode("utf-8", "surrogateescape"),
        headers=headers,
    )
    told = {
        "status": answer.status_code,
        "kind": answer.headers.get("content-type", ""),
        "location": answer.headers.get("location", ""),
        "text": answer.text,
    }
    print(json.dumps(told), file=out, flush=True)
