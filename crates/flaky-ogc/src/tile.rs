use crate::seed::{hash, mix};

/// One map image: what a GetMap asks for, and the only pixels that are the right answer to it.
///
/// The pixels depend on layer, reference system, box and size, so that a client can tell that the right tile came.
///
/// ```
/// use flaky_ogc::Tile;
///
/// let tile = Tile::xyz(3, 2, 1);
/// assert!(tile.query().starts_with("SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap"));
/// assert_eq!(&tile.png()[..8], b"\x89PNG\r\n\x1a\n");
/// assert_ne!(tile.png(), Tile::xyz(3, 2, 2).png());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// Layers, comma separated.
    pub layers: String,
    /// The reference system, such as `EPSG:3857`.
    pub crs: String,
    /// The box, in the order of the request.
    pub bbox: [f64; 4],
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl Tile {
    /// The tile of the layer `relief` at zoom `z`, column `x`, row `y` of the usual web grid, 256 pixels wide and high.
    pub fn xyz(z: u32, x: u32, y: u32) -> Self {
        let side = 2.0 * WEB_EDGE / f64::from(z).exp2();
        let (west, north) = (
            -WEB_EDGE + side * f64::from(x),
            WEB_EDGE - side * f64::from(y),
        );
        Self {
            layers: "relief".to_owned(),
            crs: "EPSG:3857".to_owned(),
            bbox: [west, north - side, west + side, north],
            width: 256,
            height: 256,
        }
    }

    /// The query of a WMS 1.3.0 GetMap for this tile.
    pub fn query(&self) -> String {
        let [a, b, c, d] = self.bbox;
        format!(
            "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={}&STYLES=&CRS={}&BBOX={a},{b},{c},{d}&WIDTH={}&HEIGHT={}&FORMAT=image/png",
            self.layers, self.crs, self.width, self.height
        )
    }

    /// The image, byte for byte what the server sends.
    pub fn png(&self) -> Vec<u8> {
        let mut key = format!(
            "{}|{}|{}|{}",
            self.layers, self.crs, self.width, self.height
        )
        .into_bytes();
        for edge in self.bbox {
            key.extend_from_slice(&edge.to_bits().to_le_bytes());
        }
        encode(self.width, self.height, hash(0, &key))
    }
}

/// A blank image of one colour: what a server sends that was asked to hide its exceptions.
pub(crate) fn blank(width: u32, height: u32) -> Vec<u8> {
    encode(width, height, 0)
}

/// Sixteen by sixteen blocks of four greys, one noisy row between them: small, but no two tiles look the same.
fn encode(width: u32, height: u32, key: u64) -> Vec<u8> {
    let (width, height) = (width.max(1), height.max(1));
    let bytes_in_row = width.div_ceil(4);
    let mut pixels = Vec::with_capacity(bytes_in_row as usize * height as usize);
    for y in 0..height {
        for x in 0..bytes_in_row {
            let block = if y % 16 == 0 {
                u64::from(x) << 32
            } else {
                u64::from(x / 4)
            };
            pixels.push(if key == 0 {
                0xff
            } else {
                mix(key ^ block ^ (u64::from(y / 16) << 16)) as u8
            });
        }
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Two);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&pixels));
    debug_assert!(
        written.is_ok(),
        "writing to memory, with as many pixels as announced"
    );
    file
}

/// Half the circumference of the web mercator square, in metres.
const WEB_EDGE: f64 = 20_037_508.342_789_244;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_a_valid_image_of_the_asked_size() {
        let file = Tile::xyz(2, 1, 1).png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file))
            .read_info()
            .expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("fits")];
        let info = reader.next_frame(&mut pixels).expect("pixels");
        assert_eq!((info.width, info.height), (256, 256));
    }
}
