//! Which picture does a client get? The one made before when nothing changed, else a new one, remembered by its name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::{Cache, Picture, Stamp};
use super::capture::Look;
use super::encode::Encoded;
use super::form::Form;
use super::frame::Frame;
use super::frames::{self, Frames, Taken};
use super::screen::Screen;
use hotdesk_domain::error::{Error, Result};

/// How long a picture may wait for an encoder; each takes milliseconds.
const ENCODER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pictures of one screen: the newest as files, more of them by what they show.
#[derive(Debug)]
pub(super) struct Album {
    cache: Cache,
    frames: Frames,
}

impl Default for Album {
    fn default() -> Self {
        Self { cache: Cache::default(), frames: Frames::new() }
    }
}

/// What a client that may have a picture already is told.
#[derive(Clone, Debug)]
pub enum Sight {
    /// It has the present one: this frame.
    Same(Arc<str>, Taken),
    /// Here it is.
    Picture(Picture),
}

impl Album {
    /// The answer for this content in this form, if there is one already.
    fn known(&self, stamp: Stamp, form: Form, held: &[Arc<str>]) -> Option<Sight> {
        let same = held.iter().find_map(|name| {
            let taken = self.frames.get(name)?;
            (taken.stamp == stamp && taken.form == form).then(|| Sight::Same(Arc::clone(name), taken.clone()))
        });
        same.or_else(|| self.cache.get(stamp, form).map(Sight::Picture))
    }
}

impl Screen {
    /// A picture of the screen.
    ///
    /// # Errors
    /// `Unavailable` or `TimedOut` when the screen cannot be read now; `Invalid` for a region that is not on it, and for a
    /// budget that no picture keeps; `Internal` when an encoder fails.
    pub async fn screenshot(&self, form: Form) -> Result<Picture> {
        match self.screenshot_unless(form, Vec::new()).await? {
            Sight::Picture(picture) => Ok(picture),
            Sight::Same(..) => Err(Error::internal("a picture that nobody has was left out")),
        }
    }

    /// A picture of the screen, unless the present one is among those that the client has.
    ///
    /// # Errors
    /// As [`Screen::screenshot`].
    pub async fn screenshot_unless(&self, form: Form, held: Vec<Arc<str>>) -> Result<Sight> {
        // First only ask whether it changed.
        let stamp = self.run(move |seat, _| seat.stamp(form.region, form.cursor)).await?;
        if let Some(sight) = self.album().known(stamp, form, &held) {
            return Ok(sight);
        }
        let album = Arc::clone(&self.album);
        let known = move |stamp| lock(&album).cache.get(stamp, form);
        let (stamp, picture) = self.picture(form, known, |_| {}).await?;
        if let Some(stamp) = stamp {
            self.album().cache.put(stamp, form, picture.clone());
        }
        Ok(Sight::Picture(picture))
    }

    /// Takes a picture, has something drawn on it, encodes it and names it. With its stamp, unless it was `known`.
    pub(super) async fn picture(
        &self,
        form: Form,
        known: impl Fn(Stamp) -> Option<Picture> + Send + 'static,
        draw: impl FnOnce(&mut Frame) + Send + 'static,
    ) -> Result<(Option<Stamp>, Picture)> {
        // A new picture waits for its encoder before it takes memory.
        let turn = tokio::time::timeout(ENCODER_TIMEOUT, self.encoders.turn()).await;
        let Ok(Some(turn)) = turn else { return Err(self.busy()) };
        let (stamp, region, mut frame) =
            match self.run(move |seat, _| seat.look(form.region, form.cursor, known)).await? {
                Look::Known(picture) => return Ok((None, picture)),
                Look::New(stamp, region, frame) => (stamp, region, frame),
            };
        let encoders = Arc::clone(&self.encoders);
        let encoded = tokio::task::spawn_blocking(move || {
            draw(&mut frame);
            encoders.encode(&frame, form, turn)
        });
        let file = encoded.await.map_err(|error| Error::internal(format!("encoder: {error}")))??;
        let taken = Taken { stamp, form, region, width: file.width, height: file.height };
        let scale = taken.scale();
        let frame = self.album().frames.add(taken);
        let Encoded { bytes, mime_type, width, height } = file;
        Ok((Some(stamp), Picture { bytes, mime_type, width, height, scale, frame }))
    }

    /// What a picture that was given out lately shows.
    ///
    /// # Errors
    /// `Conflict` with the code `unknown_frame` when it is not known, or not any more.
    pub fn taken(&self, frame: &str) -> Result<Taken> {
        self.album().frames.get(frame).cloned().ok_or_else(|| frames::unknown(frame))
    }

    fn album(&self) -> MutexGuard<'_, Album> {
        lock(&self.album)
    }
}

fn lock(album: &Mutex<Album>) -> MutexGuard<'_, Album> {
    album.lock().unwrap_or_else(PoisonError::into_inner)
}
