//! How alike are two pictures?

use std::path::Path;

/// An RGB picture.
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    rgb: Vec<[u8; 3]>,
}

/// How far the finest JPEG may move a pixel.
const LOSS: u8 = 4;

impl Pixels {
    pub fn of_file(path: &Path) -> Self {
        Self::of(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub fn of(png: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().expect("a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut bytes).expect("its pixels");
        let samples = info.color_type.samples();
        assert!(samples >= 3, "colours");
        let rgb = bytes.chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Self { width: info.width as usize, height: info.height as usize, rgb }
    }

    /// The part of pixels that are nearly equal at the same place; 0 where the sizes differ.
    pub fn alike(&self, other: &Self) -> f64 {
        if (self.width, self.height) != (other.width, other.height) {
            return 0.0;
        }
        let near =
            |(a, b): &(&[u8; 3], &[u8; 3])| a.iter().zip(b.iter()).all(|(a, b)| a.abs_diff(*b) <= LOSS);
        self.rgb.iter().zip(&other.rgb).filter(near).count() as f64 / self.rgb.len() as f64
    }

    /// The part of pixels that are nearly of a colour.
    pub fn part_of(&self, colour: [u8; 3]) -> f64 {
        let near = |pixel: &&[u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) <= 12);
        self.rgb.iter().filter(near).count() as f64 / self.rgb.len() as f64
    }
}
