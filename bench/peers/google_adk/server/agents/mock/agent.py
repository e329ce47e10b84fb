"""The agent of the suite `server` for google-adk: a model that answers immediately."""

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

ANSWER = "Yes: two quiet rooms on a high floor are free on both dates."


class MockModel(BaseLlm):

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=ANSWER)]))


root_agent = LlmAgent(name="assistant", model=MockModel(model="mock"), instruction="Be brief.")
