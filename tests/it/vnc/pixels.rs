//! Comparison of two pictures.

use std::path::Path;

/// An RGB picture.
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    rgb: Vec<[u8; 3]>,
}

/// Largest difference of a pixel in the best JPEG quality.
const MAX_DIFFERENCE: u8 = 4;

impl Pixels {
    pub fn of_file(path: &Path) -> Self {
        Self::of(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub fn of(png: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().expect("a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut bytes).expect("pixels");
        let samples = info.color_type.samples();
        assert!(samples >= 3, "colours");
        let rgb = bytes.chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Self { width: info.width as usize, height: info.height as usize, rgb }
    }

    /// The share of pixels that are nearly equal at the same position; 0 when the sizes differ.
    pub fn similarity(&self, other: &Self) -> f64 {
        if (self.width, self.height) != (other.width, other.height) {
            return 0.0;
        }
        let near = |(a, b): &(&[u8; 3], &[u8; 3])| {
            a.iter().zip(b.iter()).all(|(a, b)| a.abs_diff(*b) <= MAX_DIFFERENCE)
        };
        self.rgb.iter().zip(&other.rgb).filter(near).count() as f64 / self.rgb.len() as f64
    }

    /// The share of pixels that nearly have a colour.
    pub fn share_of(&self, colour: [u8; 3]) -> f64 {
        let near = |pixel: &&[u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) <= 12);
        self.rgb.iter().filter(near).count() as f64 / self.rgb.len() as f64
    }
}
