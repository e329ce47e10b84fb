//! Gemini, by API key and by Vertex AI.
