//! A picture with numbered marks and the list that the numbers mean, in one call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::object::Area;
use super::request::Request;
use super::{Elements, marks};
use crate::display::Form;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::element::{ElementsQuery, MarkedQuery, MarkedScreenshot};
use hotdesk_wire::screenshot::ScreenshotQuery;

/// Marks when no number is given: more hide the picture.
const DEFAULT_MARKS: u32 = 100;
/// Most marks.
const MAX_MARKS: u32 = 500;

impl Elements {
    /// Takes a picture with marks on what takes input, or on what was asked for.
    ///
    /// # Errors
    /// As [`Elements::list`] and the screen's own.
    pub async fn marked(&self, query: MarkedQuery) -> Result<MarkedScreenshot> {
        let form = Form::parse(&ScreenshotQuery {
            format: query.format,
            quality: query.quality,
            scale: query.scale,
            ..ScreenshotQuery::default()
        })?;
        let most = query.max_nodes.unwrap_or(DEFAULT_MARKS);
        if !(1..=MAX_MARKS).contains(&most) {
            return Err(Error::invalid(format!("max_nodes must be 1 to {MAX_MARKS}")));
        }
        let request = Request::parse(ElementsQuery {
            max_nodes: Some(most),
            timeout_ms: query.timeout_ms,
            role: query.role,
            name: query.name,
            window: query.window,
            screen: query.screen,
            ..ElementsQuery::default()
        })?;
        let screen = self.room.displays.screen(request.screen())?;
        let mut list = self.list(request.inputs_only()).await?;
        let mut boxes = Vec::new();
        for (mark, element) in (1..).zip(&mut list.elements) {
            element.mark = Some(mark);
            let (x, y, width, height) = (element.x, element.y, element.width, element.height);
            boxes.push(Area { x, y, width, height });
        }
        let scale = query.scale.unwrap_or(1.0);
        let picture = screen.screenshot_with(form, move |canvas| marks::draw(canvas, &boxes, scale)).await?;
        Ok(MarkedScreenshot {
            image: STANDARD.encode(&picture.bytes),
            mime_type: picture.mime_type.to_owned(),
            width: picture.width,
            height: picture.height,
            list,
        })
    }
}
