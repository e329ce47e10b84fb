//! Evaluations and recorded tests are not supported: lists are empty, and writes are rejected.

use axum::{
    extract::Path,
    http::{Method, StatusCode},
    response::Response,
};
use retain_core::{Json, JsonMap};

use super::{super::errors::AdkError, DevOnly, EDIT, VIEW, json, local::LocalOnly, not_supported};
use crate::routes::Routes;

/// The paths of the lists, with and without the prefix `/dev`.
const LISTS: [[&str; 5]; 2] = [
    [
        "/dev/apps/{app}/eval_sets",
        "/dev/apps/{app}/eval-sets",
        "/dev/apps/{app}/eval_results",
        "/dev/apps/{app}/eval-results",
        "/dev/apps/{app}/metrics-info",
    ],
    [
        "/apps/{app}/eval_sets",
        "/apps/{app}/eval-sets",
        "/apps/{app}/eval_results",
        "/apps/{app}/eval-results",
        "/apps/{app}/metrics-info",
    ],
];

pub(super) fn routes(mut routes: Routes) -> Routes {
    for [sets, named_sets, results, named_results, metrics] in LISTS {
        routes = routes
            .add(Method::GET, sets, VIEW, empty_list)
            .add(Method::GET, named_sets, VIEW, no_sets)
            .add(Method::POST, named_sets, EDIT, reject_eval)
            .add(Method::GET, results, VIEW, empty_list)
            .add(Method::GET, named_results, VIEW, no_results)
            .add(Method::GET, metrics, VIEW, no_metrics);
    }
    routes = routes.add(Method::GET, "/dev/apps/{app}/tests", VIEW, empty_list);
    routes = add_set_route(routes, "/dev/apps/{app}/eval_sets/{set}");
    routes = add_set_route(routes, "/apps/{app}/eval_sets/{set}");
    for [evals, result, named_result] in [
        [
            "/dev/apps/{app}/eval_sets/{set}/evals",
            "/dev/apps/{app}/eval_results/{result}",
            "/dev/apps/{app}/eval-results/{result}",
        ],
        [
            "/apps/{app}/eval_sets/{set}/evals",
            "/apps/{app}/eval_results/{result}",
            "/apps/{app}/eval-results/{result}",
        ],
    ] {
        routes = routes
            .add(Method::GET, evals, VIEW, no_such_set)
            .add(Method::GET, result, VIEW, no_such_result)
            .add(Method::GET, named_result, VIEW, no_such_result);
    }
    for action in [
        "/dev/apps/{app}/eval_sets/{set}/add_session",
        "/dev/apps/{app}/eval_sets/{set}/run_eval",
        "/dev/apps/{app}/eval-sets/{set}/run",
        "/dev/apps/{app}/eval-sets/{set}/add-session",
        "/apps/{app}/eval_sets/{set}/add_session",
        "/apps/{app}/eval_sets/{set}/run_eval",
        "/apps/{app}/eval-sets/{set}/run",
        "/apps/{app}/eval-sets/{set}/add-session",
    ] {
        routes = routes.add(Method::POST, action, EDIT, reject_eval);
    }
    routes
}

fn add_set_route(routes: Routes, set: &'static str) -> Routes {
    routes.add(Method::POST, set, EDIT, reject_eval)
}

async fn empty_list(_: DevOnly) -> Response {
    json(Vec::<Json>::new())
}

fn object_with_empty_list(key: &str) -> Response {
    json(JsonMap::from([(key, Vec::<Json>::new())]))
}

async fn no_sets(_: DevOnly) -> Response {
    object_with_empty_list("evalSetIds")
}

async fn no_results(_: DevOnly) -> Response {
    object_with_empty_list("evalResultIds")
}

async fn no_metrics(_: DevOnly) -> Response {
    object_with_empty_list("metricsInfo")
}

async fn no_such_set(_: DevOnly, Path((_, set)): Path<(String, String)>) -> AdkError {
    AdkError::bad_request(format!("Eval set `{set}` not found."))
}

async fn no_such_result(_: DevOnly, Path((_, result)): Path<(String, String)>) -> AdkError {
    let detail = format!("Eval set result `{result}` not found.");
    AdkError::new(StatusCode::NOT_FOUND, detail)
}

async fn reject_eval(_: DevOnly, _: LocalOnly) -> AdkError {
    not_supported("Evaluation (adk eval)")
}
