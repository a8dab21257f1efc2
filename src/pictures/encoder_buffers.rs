//! Reusable buffers of an encoder, and the three file formats.

use bytes::Bytes;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::frame::Frame;
use crate::options::{DEFAULT_QUALITY, Format};
use crate::png_writer;
use hotdesk_domain::error::{Error, Result};

/// JPEG quality from which colours have full resolution: a lower quality does not ask for fidelity.
const FULL_COLOUR_QUALITY: u8 = 90;

/// Search method of libwebp, 0 to 6. Measured with a desktop full of text (1280x720, two cores, best of 12)
/// at quality 80: method 0 takes 31 ms for 286 kB, 1 takes 42 ms for 283 kB, 4 takes 97 ms for 271 kB.
/// Lossless: 0 takes 20 ms, 1 takes 62 ms for as many bytes.
const WEBP_METHOD: i32 = 0;
/// Lossless effort, which libwebp takes as quality. On the same desktop an effort below 60 takes 18 ms for
/// 367 kB, 60 takes 20 ms for 202 kB, 90 takes 25 ms for 191 kB.
const LOSSLESS_EFFORT: u8 = 60;

/// Reusable buffers: to allocate several megabytes costs more than to fill them.
#[derive(Debug, Default)]
pub(crate) struct EncoderBuffers {
    resizer: Resizer,
    scaled: Vec<u8>,
    /// Width and height of the picture in `scaled`.
    has: Option<(u32, u32)>,
    rgb: Vec<u8>,
    file: Vec<u8>,
    jpeg: Vec<u8>,
    compressor: Option<turbojpeg::Compressor>,
}

/// Pixels of four bytes to encode, and the buffers to do it with.
#[derive(Debug)]
pub(crate) struct Pixels<'a> {
    pixels: &'a [u8],
    width: u32,
    height: u32,
    rgb: &'a mut Vec<u8>,
    file: &'a mut Vec<u8>,
    jpeg: &'a mut Vec<u8>,
    compressor: &'a mut Option<turbojpeg::Compressor>,
}

impl EncoderBuffers {
    /// Memory of the buffers in bytes.
    pub(crate) fn bytes(&self) -> usize {
        [&self.scaled, &self.rgb, &self.file, &self.jpeg].iter().map(|buffer| buffer.capacity()).sum()
    }

    /// Invalidates the scaled picture before a new frame.
    pub(crate) fn forget(&mut self) {
        self.has = None;
    }

    /// The frame at this size in pixels.
    pub(crate) fn scaled<'a>(&'a mut self, frame: &'a Frame, width: u32, height: u32) -> Result<Pixels<'a>> {
        let whole = (width, height) == (u32::from(frame.width), u32::from(frame.height));
        if !whole && self.has != Some((width, height)) {
            self.shrink(frame, width, height)?;
        }
        let Self { scaled, rgb, file, jpeg, compressor, .. } = self;
        let bytes = width as usize * height as usize * 4;
        let pixels = if whole { Some(&frame.pixels[..]) } else { scaled.get(..bytes) };
        let pixels =
            pixels.ok_or_else(|| Error::internal("Scaling the screenshot: the buffer is too small"))?;
        Ok(Pixels { pixels, width, height, rgb, file, jpeg, compressor })
    }

    fn shrink(&mut self, frame: &Frame, width: u32, height: u32) -> Result<()> {
        let failed =
            |error: &dyn std::fmt::Display| Error::internal(format!("Scaling the screenshot: {error}"));
        self.has = None;
        let bytes = width as usize * height as usize * 4;
        if self.scaled.len() < bytes {
            self.scaled.resize(bytes, 0);
        }
        let source = ImageRef::new(frame.width.into(), frame.height.into(), &frame.pixels, PixelType::U8x4)
            .map_err(|error| failed(&error))?;
        let target = self.scaled.get_mut(..bytes).unwrap_or_default();
        let mut target =
            Image::from_slice_u8(width, height, target, PixelType::U8x4).map_err(|error| failed(&error))?;
        // Bilinear with the footprint widened by the factor: smooth text in half the time of Lanczos. The
        // fourth byte is not opacity, so alpha handling is off.
        let options =
            ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
        self.resizer.resize(&source, &mut target, &options).map_err(|error| failed(&error))?;
        self.has = Some((width, height));
        Ok(())
    }
}

impl Pixels<'_> {
    /// Encodes a file; `None` as quality is lossless.
    pub(crate) fn write(mut self, format: Format, quality: Option<u8>) -> Result<Bytes> {
        match (format, quality) {
            (Format::Png, _) => self.png(),
            (Format::Jpeg { .. }, quality) => self.jpeg(quality.unwrap_or(DEFAULT_QUALITY)),
            (Format::Webp { .. }, quality) => self.webp(quality),
        }
    }

    fn png(&mut self) -> Result<Bytes> {
        png_writer::png(self.pixels, self.width, self.height, self.file)
            .map_err(|error| Error::internal(format!("Encoding the screenshot as PNG: {error}")))?;
        Ok(Bytes::copy_from_slice(self.file))
    }

    fn jpeg(&mut self, quality: u8) -> Result<Bytes> {
        let failed =
            |error: turbojpeg::Error| Error::internal(format!("Encoding the screenshot as JPEG: {error}"));
        if self.compressor.is_none() {
            *self.compressor = Some(turbojpeg::Compressor::new().map_err(failed)?);
        }
        let Some(compressor) = self.compressor else {
            return Err(Error::internal("Encoding the screenshot as JPEG: no compressor"));
        };
        let colours = if quality >= FULL_COLOUR_QUALITY {
            turbojpeg::Subsamp::None
        } else {
            turbojpeg::Subsamp::Sub2x2
        };
        compressor.set_quality(quality.into()).map_err(failed)?;
        compressor.set_subsamp(colours).map_err(failed)?;
        let (width, height) = (self.width as usize, self.height as usize);
        let most = compressor.buf_len(width, height).map_err(failed)?;
        if self.jpeg.len() < most {
            // Zeroed memory from the kernel: pages that no file reaches use no memory.
            *self.jpeg = vec![0; most];
        }
        let format = turbojpeg::PixelFormat::BGRX;
        let image = turbojpeg::Image { pixels: self.pixels, width, pitch: width * 4, height, format };
        let bytes = compressor.compress_to_slice(image, self.jpeg).map_err(failed)?;
        Ok(Bytes::copy_from_slice(self.jpeg.get(..bytes).unwrap_or_default()))
    }

    fn webp(&mut self, quality: Option<u8>) -> Result<Bytes> {
        let failed =
            |why: &dyn std::fmt::Debug| Error::internal(format!("Encoding the screenshot as WebP: {why:?}"));
        png_writer::to_rgb(self.pixels, self.rgb);
        let mut config = webp::WebPConfig::new().map_err(|()| failed(&"no configuration"))?;
        config.lossless = quality.is_none().into();
        config.quality = f32::from(quality.unwrap_or(LOSSLESS_EFFORT));
        config.method = WEBP_METHOD;
        let encoder = webp::Encoder::from_rgb(self.rgb, self.width, self.height);
        let file = encoder.encode_advanced(&config).map_err(|error| failed(&error))?;
        Ok(Bytes::copy_from_slice(&file))
    }
}
