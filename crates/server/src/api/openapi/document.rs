//! Builds the OpenAPI document from the descriptions of all routes.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    super::{
        operation::{Body, Operation},
        operations, problem,
        shapes::ProblemObject,
    },
    adk_schemas,
    other_routes::{self, OtherRoute},
};
use crate::{guard::Scope, routes::Access, services::Server};

/// Errors of every route of Retain's API: invalid request, missing API key, forbidden, rate limit,
/// corrupt data, unavailable store.
const COMMON: &[u16] = &[400, 401, 403, 429, 500, 503];
/// Further errors of routes with a body: too large, wrong media type, no space left.
const WITH_BODY: &[u16] = &[413, 415, 507];
/// Errors of every non-public route of the other APIs.
const COMMON_OF_OTHERS: &[u16] = &[401, 403, 429, 500, 503];

/// Creates the whole document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for (operation, access) in operations() {
        let described = describe(&operation, access, &mut schemas);
        insert(
            &mut paths,
            operation.path,
            operation.method.as_str(),
            described,
        );
    }
    for route in Server::routes() {
        if let Some(other) = other_routes::find(&route.method, route.path) {
            let described = describe_other(other, route.path, route.access);
            insert(&mut paths, route.path, route.method.as_str(), described);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Retain",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable sessions, scoped state and memory for AI agents. `/api/v1` is Retain's own API; the other paths are ADK's API and routes for operators.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [
            {"name": "sessions"}, {"name": "memory"}, {"name": "artifacts"}, {"name": "adk"},
            {"name": "operations"},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "responses": {"Problem": {
                "description": "An error as an RFC 9457 problem.",
                "content": {problem::MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                }},
            }},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
}

/// The schemas of request and response bodies, which differ in their required fields.
struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let mut responses = settings().for_serialize().into_generator();
        responses.subschema_for::<ProblemObject>();
        for (name, schema) in adk_schemas::components() {
            let definitions = responses.definitions_mut();
            definitions.insert(name.to_owned(), schema.into());
        }
        Schemas {
            requests: settings().for_deserialize().into_generator(),
            responses,
        }
    }

    fn finish(mut self) -> Map<String, Value> {
        let mut all = self.responses.take_definitions(true);
        all.extend(self.requests.take_definitions(true));
        all.sort_keys();
        all
    }
}

fn insert(paths: &mut Map<String, Value>, path: &str, method: &str, described: Value) {
    // OpenAPI has no wildcard parameters.
    let path = path.replace("{*", "{");
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[method.to_ascii_lowercase()] = described;
}

fn describe(operation: &Operation, access: Access, schemas: &mut Schemas) -> Value {
    let mut parameters = path_parameters(operation.path);
    parameters.extend(operation.query.iter().map(|param| param.describe()));
    parameters.extend(operation.headers.iter().map(|(name, about)| {
        json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": about,
            "schema": {"type": "integer", "minimum": 0},
        })
    }));
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag(operation.path)],
        "parameters": parameters,
    });
    if let Some(body) = &operation.body {
        described["requestBody"] = json!({
            "required": !operation.body_is_optional,
            "content": content(body, &mut schemas.requests),
        });
    }
    described["responses"] = responses(operation, access, &mut schemas.responses);
    add_access(&mut described, access);
    described
}

fn responses(operation: &Operation, access: Access, schemas: &mut SchemaGenerator) -> Value {
    let mut success = json!({"description": operation.summary});
    if let Some(body) = &operation.answer {
        success["content"] = content(body, schemas);
    }
    let mut statuses = operation.failures.to_vec();
    if access != Access::Public {
        statuses.extend(COMMON);
    }
    if operation.body.is_some() {
        statuses.extend(WITH_BODY);
    }
    if operation.path.contains("/memory/") {
        statuses.push(501);
    }
    statuses.sort_unstable();
    statuses.dedup();
    let mut responses = Map::new();
    responses.insert(operation.status.to_string(), success);
    for status in statuses {
        let problem = json!({"$ref": "#/components/responses/Problem"});
        responses.insert(status.to_string(), problem);
    }
    responses.into()
}

fn content(body: &Body, schemas: &mut SchemaGenerator) -> Value {
    let schema = match body.schema {
        Some(make) => make(schemas).into(),
        None if body.media_type == "application/json" => json!({"type": "object"}),
        // An event stream has no JSON schema; the guide describes the events.
        None if body.media_type == "text/event-stream" => json!(true),
        None => json!({"type": "string"}),
    };
    json!({body.media_type: {"schema": schema}})
}

/// Returns the parameters of a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_start_matches('*'))
    });
    let described = names.map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "schema": {"type": "string", "minLength": 1},
        })
    });
    described.collect()
}

fn tag(path: &str) -> &'static str {
    match path {
        path if path.contains("/memory/") => "memory",
        path if path.contains("/artifacts") => "artifacts",
        path if path.starts_with("/api/") => "sessions",
        _ => "operations",
    }
}

/// Describes the API key and scope that a route requires. The empty entry means no key, which a
/// server on a loopback address accepts.
fn add_access(described: &mut Value, access: Access) {
    let scope = match access {
        Access::Public => {
            described["security"] = json!([]);
            return;
        }
        Access::Path(scope) | Access::Body(scope) | Access::Anybody(scope) => scope,
    };
    described["security"] = json!([{}, {"bearer": []}, {"apiKey": []}]);
    described["x-retain-scope"] = scope_name(scope).into();
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::SessionsRead => "sessions:read",
        Scope::SessionsWrite => "sessions:write",
        Scope::MemoryRead => "memory:read",
        Scope::MemoryWrite => "memory:write",
        Scope::MemoryDelete => "memory:delete",
        Scope::Run => "run",
        Scope::Admin => "admin",
    }
}

fn describe_other(other: OtherRoute, path: &str, access: Access) -> Value {
    let mut parameters = path_parameters(path);
    parameters.extend(other.query.iter().map(|name| {
        json!({"name": name, "in": "query", "required": false, "schema": {"type": "string"}})
    }));
    let mut described = json!({
        "summary": other.summary,
        "tags": [if other.is_adk { "adk" } else { "operations" }],
        "parameters": parameters,
    });
    let mut statuses = other.failures.to_vec();
    if access != Access::Public {
        statuses.extend(COMMON_OF_OTHERS);
    }
    if let Some(schema) = other.takes {
        let mut content = json!({"schema": schema});
        if let Some(example) = other.example {
            content["example"] = example;
        }
        described["requestBody"] = json!({"content": {"application/json": content}});
        statuses.extend(WITH_BODY);
    }
    let mut success = json!({"description": other.summary});
    if let Some((media_type, schema)) = other.answers {
        success["content"] = json!({media_type: {"schema": schema}});
    }
    statuses.sort_unstable();
    statuses.dedup();
    let mut responses = Map::new();
    responses.insert(other.status.to_string(), success);
    for status in statuses {
        let failure = json!({"description": "What went wrong."});
        responses.insert(status.to_string(), failure);
    }
    described["responses"] = responses.into();
    add_access(&mut described, access);
    described
}
