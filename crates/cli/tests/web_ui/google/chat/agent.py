"""An agent for Google's own server, so that its page can be compared with ours. It gives the same
answers as the offline model, for the messages of the check."""

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import load_memory
from google.genai import types


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        part = llm_request.contents[-1].parts[0]
        if part.text and "cat" in part.text:
            call = types.FunctionCall(name="load_memory", args={"query": "cat"})
            yield reply(types.Part(function_call=call))
            return
        text = 'You told me: "I live in Oslo."' if part.text else "I know nothing of it."
        if stream:
            for word in text.split(" "):
                yield reply(types.Part(text=word + " "), partial=True)
        yield reply(types.Part(text=text))


def reply(part, **more):
    return LlmResponse(content=types.Content(role="model", parts=[part]), **more)


root_agent = LlmAgent(
    name="chat",
    model=Scripted(),
    description="Remembers what it is told.",
    instruction="Be brief.",
    tools=[load_memory],
)
