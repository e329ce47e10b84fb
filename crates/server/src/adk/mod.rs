//! ADK's API as google-adk 2.13 serves it: paths, status codes, bodies, SSE framing.

use crate::routes::Routes;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
}
