//! Numbered marks on a picture: an outline for each box and a badge with its number.

use crate::display::Canvas;
use crate::elements::bus::object::Area;

/// Bitmaps of the digits 0 to 9, 5 by 7 pixels; the leftmost pixel is the highest bit of a row.
const DIGITS: [[u8; 7]; 10] = [
    [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110],
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111],
    [0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];
/// Width of a digit in pixels, before it is enlarged.
const DIGIT_WIDTH: i32 = 5;
/// Height of a digit in pixels, before it is enlarged.
const DIGIT_HEIGHT: i32 = 7;
/// Colours of badges, blue first: dark enough for white digits, and neighbours differ.
const COLOURS: [[u8; 3]; 6] =
    [[30, 30, 200], [180, 80, 0], [20, 120, 20], [140, 20, 140], [0, 80, 190], [110, 100, 0]];
/// Colour of the digits.
const WHITE: [u8; 3] = [255, 255, 255];
/// Factor by which digits are enlarged at full size.
const ENLARGED: f64 = 2.0;

/// Draws marks 1, 2, 3 ... on the boxes. `scale` is the factor by which the picture is reduced afterwards;
/// badges grow accordingly.
pub(super) fn draw(canvas: &mut Canvas<'_>, boxes: &[Area], scale: f64) {
    let unit = (ENLARGED / scale.clamp(0.05, 1.0)).round() as i32;
    let mut badges: Vec<Area> = Vec::new();
    for (number, area) in (1..).zip(boxes) {
        outline(canvas, *area, COLOURS[number % COLOURS.len()], unit.min(4) / 2);
    }
    // After all outlines, so that no outline crosses a number.
    for (number, area) in (1..).zip(boxes) {
        let badge = place(canvas, &badges, *area, number, unit);
        fill(canvas, badge, COLOURS[number % COLOURS.len()]);
        write_number(canvas, badge, number, unit);
        badges.push(badge);
    }
}

/// Returns the area of a badge: at a corner of its box where no earlier badge is, or at the first corner when
/// all are taken.
fn place(canvas: &Canvas<'_>, taken: &[Area], area: Area, number: usize, unit: i32) -> Area {
    let width = (digits(number).len() as i32 * (DIGIT_WIDTH + 1) + 1) * unit;
    let height = (DIGIT_HEIGHT + 2) * unit;
    let (right, bottom) = (area.x + area.width, area.y + area.height);
    let corners = [
        (area.x, area.y - height),
        (area.x, area.y),
        (right - width, area.y),
        (right - width, area.y - height),
        (area.x, bottom - height),
        (area.x, bottom),
        (right - width, bottom - height),
    ];
    let (most_x, most_y) = (canvas.width as i32 - width, canvas.height as i32 - height);
    let mut inside = corners.into_iter().map(|(x, y)| {
        let (x, y) = (x.min(most_x).max(0), y.min(most_y).max(0));
        Area { x, y, width, height }
    });
    let first = inside.clone().next().unwrap_or(area);
    inside.find(|place| taken.iter().all(|other| other.intersection(*place).is_none())).unwrap_or(first)
}

fn digits(number: usize) -> Vec<usize> {
    number.to_string().bytes().map(|digit| usize::from(digit - b'0')).collect()
}

fn write_number(canvas: &mut Canvas<'_>, badge: Area, number: usize, unit: i32) {
    for (place, digit) in (0..).zip(digits(number)) {
        let left = badge.x + (1 + place * (DIGIT_WIDTH + 1)) * unit;
        for (row, bits) in (0..).zip(DIGITS[digit]) {
            for column in (0..DIGIT_WIDTH).filter(|column| bits >> (DIGIT_WIDTH - 1 - column) & 1 == 1) {
                let (x, y) = (left + column * unit, badge.y + (1 + row) * unit);
                fill(canvas, Area { x, y, width: unit, height: unit }, WHITE);
            }
        }
    }
}

fn outline(canvas: &mut Canvas<'_>, area: Area, colour: [u8; 3], thick: i32) {
    let thick = thick.max(1);
    let Area { x, y, width, height } = area;
    for edge in [
        Area { x, y, width, height: thick },
        Area { x, y: y + height - thick, width, height: thick },
        Area { x, y, width: thick, height },
        Area { x: x + width - thick, y, width: thick, height },
    ] {
        fill(canvas, edge, colour);
    }
}

/// Fills the part of an area that is on the canvas.
fn fill(canvas: &mut Canvas<'_>, area: Area, colour: [u8; 3]) {
    let whole = Area { x: 0, y: 0, width: canvas.width as i32, height: canvas.height as i32 };
    let Some(part) = area.intersection(whole) else { return };
    let stride = canvas.width * 4;
    for y in part.y..part.y + part.height {
        let from = y as usize * stride + part.x as usize * 4;
        let row = canvas.pixels.get_mut(from..from + part.width as usize * 4).unwrap_or_default();
        for pixel in row.chunks_exact_mut(4) {
            pixel[..3].copy_from_slice(&colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(x: i32, y: i32, width: i32, height: i32) -> Area {
        Area { x, y, width, height }
    }

    /// The picture as rows: `#` is white, `+` another drawn colour, `.` an unchanged pixel.
    fn drawn(width: usize, height: usize, boxes: &[Area], scale: f64) -> Vec<String> {
        let mut pixels = vec![7; width * height * 4];
        draw(&mut Canvas { width, height, pixels: &mut pixels }, boxes, scale);
        let letter = |pixel: &[u8]| match pixel[..3] {
            [255, 255, 255] => '#',
            [7, 7, 7] => '.',
            _ => '+',
        };
        let rows = pixels.chunks_exact(width.max(1) * 4);
        rows.map(|row| row.chunks_exact(4).map(letter).collect()).collect()
    }

    #[test]
    fn a_badge_has_its_number_above_its_box() {
        let rows = drawn(60, 60, &[area(10, 30, 40, 20)], 1.0);
        // Above the box, from its left edge: a digit 1, twice enlarged.
        assert_eq!(&rows[14][10..24], "++++++##++++++");
        assert_eq!(&rows[26][10..24], "++++######++++");
        assert_eq!(rows[11], ".".repeat(60));
        // The outline, and nothing inside it.
        assert_eq!(&rows[40][9..51], format!(".+{}+.", ".".repeat(38)));
    }

    #[test]
    fn badges_stay_on_the_picture_and_off_each_other() {
        let boxes =
            vec![area(0, 0, 30, 20), area(0, 0, 30, 20), area(95, 90, 50, 50), area(-20, -20, 500, 500)];
        let mut pixels = vec![0; 100 * 100 * 4];
        let canvas = Canvas { width: 100, height: 100, pixels: &mut pixels };
        let mut badges: Vec<Area> = Vec::new();
        for (number, it) in (9..).zip(&boxes) {
            let badge = place(&canvas, &badges, *it, number, 2);
            assert_eq!(badge.intersection(area(0, 0, 100, 100)), Some(badge), "mark {number}");
            assert!(badges.iter().all(|other| other.intersection(badge).is_none()), "mark {number}");
            badges.push(badge);
        }
    }

    #[test]
    fn badges_grow_for_reduced_pictures_and_any_size_works() {
        let white = |scale| drawn(200, 100, &[area(50, 50, 50, 40)], scale).concat().matches('#').count();
        assert_eq!(white(0.5), 4 * white(1.0));
        for (width, height) in [(1, 1), (3, 200), (200, 3)] {
            drawn(width, height, &[area(-5, -5, 500, 500), area(0, 0, 1, 1)], 0.001);
        }
        drawn(0, 0, &[area(0, 0, 10, 10)], 1.0);
    }

    #[test]
    fn every_digit_differs_from_every_other() {
        for (number, first) in DIGITS.iter().enumerate() {
            for second in &DIGITS[..number] {
                let differ: u32 = first.iter().zip(second).map(|(a, b)| (a ^ b).count_ones()).sum();
                assert!(differ >= 3, "{first:?} and {second:?}");
            }
        }
    }
}
