//! Screenshot with numbered marks, and the elements of the numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::display::ScreenshotOptions;
use crate::elements::bus::object::Area;
use crate::elements::request::ListRequest;
use crate::elements::{Elements, marks};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::element::{ElementsQuery, MarkedQuery, MarkedScreenshot};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Default number of marks: more hide the picture.
const DEFAULT_MARKS: u32 = 100;
/// Most marks of one picture.
const MAX_MARKS: u32 = 500;

impl Elements {
    /// Takes a screenshot with marks on the elements that take input, or on those of the requested role.
    ///
    /// # Errors
    /// `Invalid` for bad parameters; those of [`Elements::list`] and of a screenshot.
    pub async fn marked(&self, query: MarkedQuery) -> Result<MarkedScreenshot> {
        let form = ScreenshotOptions::parse(&ScreenshotQuery {
            format: query.format,
            quality: query.quality,
            scale: query.scale,
            ..ScreenshotQuery::default()
        })?;
        let most = query.max_nodes.unwrap_or(DEFAULT_MARKS);
        if !(1..=MAX_MARKS).contains(&most) {
            return Err(Error::invalid(format!("max_nodes must be 1 to {MAX_MARKS}")));
        }
        let request = ListRequest::parse(ElementsQuery {
            max_nodes: Some(most),
            timeout_ms: query.timeout_ms,
            role: query.role,
            name: query.name,
            window: query.window,
            screen: query.screen,
            ..ElementsQuery::default()
        })?;
        let screen = self.shared.displays.screen(request.screen())?;
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
