//! Retain's own API, `/api/v1`: what the services can do and ADK's API cannot say.

use crate::routes::Routes;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
}
