//! Resources: the screens of computers, at `hotdesk://computers/{id}/screen`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, SubscriptionFilter,
};

use super::McpHandler;
use crate::api::fleet::computers;
use crate::audit;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::tools::{Call, screen_image};
use crate::web::request_lease;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::identity::access::Intent;
use hotdesk_http::error_response;
use hotdesk_http::extract::Query;
use hotdesk_wire::computer::ComputerListQuery;
use hotdesk_wire::tool::desktop::Screenshot;

/// Resources on one page: 50 are about 15 KB.
const PAGE: u32 = 50;
/// Start and end of the address of a screen.
const SCREEN: (&str, &str) = ("hotdesk://computers/", "/screen");
/// Media type of a screen.
const MIME_TYPE: &str = "image/jpeg";

/// Returns the address of a computer's screen.
fn screen_uri(computer: &str) -> String {
    format!("{}{computer}{}", SCREEN.0, SCREEN.1)
}

/// Returns the computer in the address of a screen; `None` for another address.
fn computer_of(uri: &str) -> Option<&str> {
    let id = uri.strip_prefix(SCREEN.0)?.strip_suffix(SCREEN.1)?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Returns the computers by the addresses of their screens in a filter, at most this many.
pub(super) fn screens_among(filter: &SubscriptionFilter, most: usize) -> BTreeMap<String, String> {
    let mut screens = BTreeMap::new();
    for uri in filter.resource_subscriptions.iter().flatten() {
        if let Some(computer) = computer_of(uri)
            && (screens.len() < most || screens.contains_key(uri))
        {
            screens.insert(uri.clone(), computer.to_owned());
        }
    }
    screens
}

/// Returns the template of the addresses.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(screen_uri("{id}"), "screen")
        .with_title("Screen of a computer")
        .with_description("What the boot screen of a computer shows now. The id is that of list_computers.")
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

impl McpHandler {
    /// Lists the screens of running computers. A cursor is the number of computers to skip.
    pub(super) async fn screens(
        &self,
        cursor: Option<String>,
        parts: &Parts,
    ) -> std::result::Result<ListResourcesResult, ErrorData> {
        let offset = match cursor.as_deref().map(str::parse::<u32>) {
            None => 0,
            Some(Ok(offset)) => offset,
            Some(Err(_)) => {
                return Err(ErrorData::invalid_params("The cursor is not one of this list", None));
            }
        };
        let page = request_lease::belonging(self.running_computers(offset, parts)).await;
        let (resources, next) = page.map_err(|error| protocol_error(&error, parts))?;
        let mut list = ListResourcesResult::with_all_items(resources);
        list.next_cursor = next.map(|next| next.to_string());
        Ok(list)
    }

    async fn running_computers(&self, offset: u32, parts: &Parts) -> Result<(Vec<Resource>, Option<u64>)> {
        let call = self.call_of(parts, Intent::Read)?;
        let query = ComputerListQuery {
            workspace_id: call.caller.scope.as_ref().map(|(id, _)| id.to_string()),
            status: Some("running".to_owned()),
            limit: Some(PAGE),
            offset: Some(offset),
            ..ComputerListQuery::default()
        };
        let caller = AuthenticatedCaller(call.caller);
        let Json(list) = computers::list(State(call.app), caller, call.origin, Query(query)).await?;
        let resources = list.computers.into_iter().map(|computer| {
            Resource::new(screen_uri(&computer.id), format!("screen of {}", computer.name))
                .with_description(format!("Boot screen, {}", computer.resolution))
                .with_mime_type(MIME_TYPE)
        });
        Ok((resources.collect(), list.next_offset))
    }

    /// Takes a picture of a screen.
    pub(super) async fn read_screen(
        &self,
        uri: &str,
        parts: &Parts,
    ) -> std::result::Result<ReadResourceResult, ErrorData> {
        let Some(computer) = computer_of(uri) else { return Err(unknown(uri)) };
        let read = async {
            let call = self.call_of(parts, Intent::Read)?;
            let _permit = self.permit(&call)?;
            let caller = call.caller.clone();
            let app = call.app.clone();
            let look = screen_image(call, Screenshot::of(computer));
            let route = "/mcp resources/read";
            audit::record_call(&app, &caller, parts, route, request_lease::belonging(look)).await
        };
        let (_, image, mime_type) = read.await.map_err(|error| protocol_error(&error, parts))?;
        let contents = ResourceContents::blob(image, uri).with_mime_type(mime_type);
        Ok(ReadResourceResult::new(vec![contents]))
    }

    /// Returns the context of a subscription, and the computer in its address.
    pub(super) fn screen_call(
        &self,
        uri: &str,
        parts: &Parts,
    ) -> std::result::Result<(Call, String), ErrorData> {
        let Some(computer) = computer_of(uri) else { return Err(unknown(uri)) };
        let call = self.call_of(parts, Intent::Read).map_err(|error| protocol_error(&error, parts))?;
        Ok((call, computer.to_owned()))
    }
}

/// Error of an address that is not of a screen.
fn unknown(uri: &str) -> ErrorData {
    let shown: String = uri.chars().take(super::MAX_METHOD_NAME).collect();
    ErrorData::resource_not_found(format!("There is no such resource: {shown}"), None)
}

/// Converts a failure for the client: its data is the REST API's error body. It is logged like there.
pub(super) fn protocol_error(error: &Error, parts: &Parts) -> ErrorData {
    let request_id = McpHandler::request_id(parts);
    error_response::log(error, request_id);
    let data = serde_json::to_value(error_response::body(error, request_id)).ok();
    let message = error.message.clone();
    if matches!(error.kind, Kind::NotFound | Kind::Forbidden) {
        ErrorData::resource_not_found(message, data)
    } else if error.kind == Kind::Invalid {
        ErrorData::invalid_params(message, data)
    } else {
        ErrorData::internal_error(message, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_computer() {
        assert_eq!(computer_of(&screen_uri("abc")), Some("abc"));
        for bad in [
            "hotdesk://computers//screen",
            "hotdesk://computers/a/b/screen",
            "hotdesk://computers/a",
            "hotdesk://computers/screen",
            "file:///a/screen",
            "",
        ] {
            assert_eq!(computer_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_filter_has_a_bounded_number_of_screens() {
        let filter = |uris: &[&str]| {
            SubscriptionFilter::builder().resource_subscriptions(uris.iter().copied()).build()
        };
        let (a, b, c) = (screen_uri("a"), screen_uri("b"), screen_uri("c"));
        let found = screens_among(&filter(&[&a, "file:///etc", &a, &b, &c, &a]), 2);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(a, "a".to_owned()), (b, "b".to_owned())]);
        assert!(screens_among(&SubscriptionFilter::new(), 2).is_empty());
    }
}
