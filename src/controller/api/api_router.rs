//! Routers that are made of one list of handlers: the one that serves the API, and the one that describes it.
//!
//! Both exist because the installed program only serves. Descriptions are much code, and only tests need it:
//! they build the OpenAPI document and compare it with the recorded one. The linker leaves out what only
//! [`OpenApiRouter`] uses, because the program makes no such router.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use utoipa::openapi::HttpMethod;
use utoipa_axum::PathItemExt;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::AppState;

/// Router that is made of lists of handlers.
pub trait ApiRouter: Sized {
    /// Returns a router without routes.
    fn new() -> Self;

    /// Adds documented handlers, from the macro `routes`.
    fn routes<S, D>(self, handlers: DocumentedHandlers<S, D>) -> Self
    where
        S: FnOnce(ServedRoutes) -> ServedRoutes,
        D: FnOnce() -> UtoipaMethodRouter<AppState>;

    /// Adds a route that the OpenAPI document does not have.
    fn route(self, path: &str, methods: MethodRouter<AppState>) -> Self;

    /// Adds the routes of another router.
    fn merge(self, other: Self) -> Self;
}

/// Documented handlers in two forms. A router calls one of them, so that the program has the code of that one.
pub struct DocumentedHandlers<S, D> {
    /// Adds the handlers to served routes.
    pub serve: S,
    /// Returns the handlers with their descriptions.
    pub describe: D,
}

/// The [`DocumentedHandlers`] of functions of this module that have the attribute `utoipa::path`.
macro_rules! routes {
    ($($handler:ident),+ $(,)?) => {
        $crate::api::api_router::DocumentedHandlers {
            serve: utoipa_axum::paste! {
                |served: $crate::api::api_router::ServedRoutes| {
                    served$(.serve::<[<__path_ $handler>], _, _>($handler))+
                }
            },
            describe: || -> utoipa_axum::router::UtoipaMethodRouter<$crate::AppState> {
                utoipa_axum::routes!($($handler),+)
            },
        }
    };
}
pub(crate) use routes;

/// The routes of the service, and which operations they are.
#[derive(Debug, Default)]
pub struct ServedRoutes {
    router: Router<AppState>,
    /// Method and path of each documented operation.
    operations: Vec<(Method, String)>,
}

impl ServedRoutes {
    /// Adds a handler, at the path and for the methods of its attribute `P`.
    pub fn serve<P, H, T>(self, handler: H) -> Self
    where
        P: utoipa::Path,
        H: Handler<T, AppState>,
        T: 'static,
    {
        let methods = P::methods();
        match methods.iter().map(HttpMethod::to_method_filter).reduce(MethodFilter::or) {
            Some(filter) => self.add(P::path(), &methods, on(filter, handler)),
            None => self,
        }
    }

    /// Adds a handler. It is no part of [`Self::serve`], whose code exists for each handler.
    fn add(mut self, path: String, methods: &[HttpMethod], handler: MethodRouter<AppState>) -> Self {
        self.router = self.router.route(&path, handler);
        self.operations.extend(methods.iter().map(|method| (method_named(method), path.clone())));
        self
    }

    /// Returns the router, and method and path of each documented operation.
    pub fn into_parts(self) -> (Router<AppState>, Vec<(Method, String)>) {
        (self.router, self.operations)
    }
}

fn method_named(method: &HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
    }
}

impl ApiRouter for ServedRoutes {
    fn new() -> Self {
        Self::default()
    }

    fn routes<S, D>(self, handlers: DocumentedHandlers<S, D>) -> Self
    where
        S: FnOnce(ServedRoutes) -> ServedRoutes,
        D: FnOnce() -> UtoipaMethodRouter<AppState>,
    {
        (handlers.serve)(self)
    }

    fn route(mut self, path: &str, methods: MethodRouter<AppState>) -> Self {
        self.router = self.router.route(path, methods);
        self
    }

    fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        self
    }
}

impl ApiRouter for OpenApiRouter<AppState> {
    fn new() -> Self {
        OpenApiRouter::new()
    }

    fn routes<S, D>(self, handlers: DocumentedHandlers<S, D>) -> Self
    where
        S: FnOnce(ServedRoutes) -> ServedRoutes,
        D: FnOnce() -> UtoipaMethodRouter<AppState>,
    {
        OpenApiRouter::routes(self, (handlers.describe)())
    }

    fn route(self, path: &str, methods: MethodRouter<AppState>) -> Self {
        OpenApiRouter::route(self, path, methods)
    }

    fn merge(self, other: Self) -> Self {
        OpenApiRouter::merge(self, other)
    }
}
