"""Prints the requests that Google's ADK sends to Gemini, and the answers that it reads from streams.

Reads one JSON object per line from stdin and prints one per line.

request  contents and settings -> the URL and the body, with keys in camelCase; `{"error": ...}` if
         ADK or the client library raised
stream   responses -> the answers that ADK yields, the complete one last
"""

import asyncio
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google import genai
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.utils.streaming_utils import StreamingResponseAggregator
from google.auth.credentials import AnonymousCredentials
from google.genai import models, types

# Users choose the keys inside these fields, so the keys stay as they are.
FREE = {"args", "response", "labels", "parametersJsonSchema", "responseJsonSchema", "partMetadata", "default"}


class Sent(Exception):
    pass


def client(vertex):
    if vertex:
        return genai.Client(
            vertexai=True, project="my-project", location="us-central1", credentials=AnonymousCredentials()
        )
    return genai.Client(api_key="key")


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def respell(value, inside=None):
    if isinstance(value, list):
        return [respell(item, inside) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if inside == "properties":
            out[name] = respell(item)
            continue
        name = camel(name)
        free = name in FREE and not (name == "response" and inside == "functionDeclarations")
        out[name] = item if free else respell(item, name)
    return out


async def request(case):
    sent = {}
    asked = client(case["vertex"])

    async def async_request(method, path, request_dict, http_options=None):
        built = asked._api_client._build_request(method, path, request_dict, http_options)
        sent["url"] = built.url
        sent["body"] = respell(json.loads(json.dumps(built.data)))
        raise Sent

    asked._api_client.async_request = async_request
    llm_request = LlmRequest(
        model=case["model"],
        contents=[types.Content.model_validate(content) for content in case["contents"]],
        config=types.GenerateContentConfig.model_validate(case["config"]),
    )
    try:
        async for _ in Gemini(model=case["model"], client=asked).generate_content_async(llm_request):
            pass
    except Sent:
        return sent
    except Exception as error:  # pylint: disable=broad-except
        return {"error": str(error)}


def response(said, vertex):
    read = models._GenerateContentResponse_from_vertex if vertex else models._GenerateContentResponse_from_mldev
    return types.GenerateContentResponse._from_response(response=read(said, None, None), kwargs={})


def dump(answer):
    return json.loads(answer.model_dump_json(by_alias=True, exclude_none=True))


async def stream(case):
    aggregator = StreamingResponseAggregator()
    answers = []
    usage = None
    for said in case["responses"]:
        piece = response(said, case["vertex"])
        usage = piece.usage_metadata or usage
        if piece.candidates:
            piece.candidates = [candidate for candidate in piece.candidates if not candidate.index]
            if not piece.candidates:
                continue
        async for answer in aggregator.process_response(piece):
            answers.append(dump(answer))
    whole = aggregator.close()
    if whole is not None:
        whole.usage_metadata = usage or whole.usage_metadata
        answers.append(dump(whole))
    return {"answers": answers}


async def whole(case):
    return {"answers": [dump(LlmResponse.create(response(case["response"], case["vertex"])))]}


def main():
    answer = {"request": request, "stream": stream, "whole": whole}
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(asyncio.run(answer[case["kind"]](case))), flush=True)


main()
