//! Step: removes call ids that were generated because the model assigned none.

use crate::SharedContent;

/// The prefix of generated ids, which no model knows.
const CLIENT_PREFIX: &str = "adk-";

/// Removes generated ids from the content. A content without such ids is returned uncopied.
pub(super) fn without_client_ids(mut content: SharedContent) -> SharedContent {
    let has_one = content.parts().iter().any(|part| {
        let call = part.function_call.as_ref();
        let response = part.function_response.as_ref();
        call.is_some_and(|call| is_client_id(&call.id))
            || response.is_some_and(|response| is_client_id(&response.id))
    });
    if !has_one {
        return content;
    }
    for part in content.make_mut().parts.iter_mut().flatten() {
        if let Some(call) = &mut part.function_call {
            call.id.take_if(|id| id.starts_with(CLIENT_PREFIX));
        }
        if let Some(response) = &mut part.function_response {
            response.id.take_if(|id| id.starts_with(CLIENT_PREFIX));
        }
    }
    content
}

fn is_client_id(id: &Option<String>) -> bool {
    id.as_ref().is_some_and(|id| id.starts_with(CLIENT_PREFIX))
}
