//! Tests of the OpenAI wire form.
