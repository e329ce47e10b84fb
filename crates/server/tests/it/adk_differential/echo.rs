//! The model of both servers: it echoes the last message.

use std::sync::Arc;

use retain_core::{Content, LlmResponse};
use retain_runtime::{LlmRequest, Model, ModelError, ModelStream};

#[derive(Debug)]
pub(crate) struct Echo;

impl Model for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let last = request.contents.last();
        let parts = last.map(|content| content.parts().to_vec());
        let parts = parts.unwrap_or_default().into_iter();
        let text: String = parts.filter_map(|part| part.text).collect();
        if text.starts_with("fail") {
            let error = ModelError::new("out of service").with_code("RuntimeError");
            return Box::pin(futures_util::stream::iter([Err(error)]));
        }
        let response = |text: String, partial: Option<bool>| {
            let mut response = LlmResponse::from_content(Content::model(text));
            response.partial = partial;
            Ok(response)
        };
        let whole = format!("You said: {text}");
        let answers = match stream {
            true => vec![
                response("You said: ".to_owned(), Some(true)),
                response(text, Some(true)),
                response(whole, Some(false)),
            ],
            false => vec![response(whole, None)],
        };
        Box::pin(futures_util::stream::iter(answers))
    }
}
