use std::error::Error;
use std::fmt;

use crate::ServiceException;

/// The form of a document, as its first bytes or its label tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// XML: GML, KML, capabilities, records.
    Xml,
    /// JSON: GeoJSON, STAC, OGC API, ArcGIS; JSON in a callback and one value a line too.
    Json,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
    /// TIFF and BigTIFF, GeoTIFF and cloud-optimised ones among them.
    Tiff,
    /// A zip archive: shapefiles, KMZ.
    Zip,
    /// An SQLite database: GeoPackage, MBTiles.
    Sqlite,
    /// PDF.
    Pdf,
    /// DXF as text.
    Dxf,
    /// Comma-separated values.
    Csv,
    /// MIME multipart.
    Multipart,
    /// A Mapbox vector tile.
    VectorTile,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Xml => "XML",
            Self::Json => "JSON",
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::WebP => "WebP",
            Self::Tiff => "TIFF",
            Self::Zip => "zip",
            Self::Sqlite => "SQLite",
            Self::Pdf => "PDF",
            Self::Dxf => "DXF",
            Self::Csv => "CSV",
            Self::Multipart => "multipart",
            Self::VectorTile => "vector tile",
        }
    }

    /// What a document of this form ends with.
    fn end(self) -> &'static str {
        match self {
            Self::Xml => "the end of its root element",
            Self::Json => "the end of its outermost value",
            Self::Png => "its IEND chunk",
            Self::Jpeg => "its end of image marker",
            Self::Gif => "its trailer",
            Self::Zip => "its central directory",
            Self::Pdf => "its %%EOF",
            Self::Dxf => "its EOF",
            Self::Csv => "the end of its last line",
            Self::Multipart => "its closing delimiter",
            Self::WebP | Self::Tiff | Self::Sqlite | Self::VectorTile => "its last byte",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a document is not whole: what was expected, and what came.
///
/// It holds no byte of the document but an exception's code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// Not one byte came where a document is due.
    Empty,
    /// Another number of bytes came than the headers announce, on the wire as it stands there.
    Length {
        /// Bytes by `Content-Length`, or by `Content-Range`.
        expected: u64,
        /// Bytes that came.
        came: u64,
    },
    /// The part of a file is shorter than the part that was asked for, and the file is not.
    Range {
        /// The last byte that was asked for, counted from zero.
        expected: u64,
        /// The last byte that the answer holds.
        came: u64,
    },
    /// The document ends before its end.
    NotClosed {
        /// Its form.
        format: Format,
        /// Bytes of it that came.
        came: u64,
    },
    /// The document is shorter than it says itself.
    Short {
        /// Its form.
        format: Format,
        /// Bytes it has to have at least.
        expected: u64,
        /// Bytes of it that came.
        came: u64,
    },
    /// Fewer members came than the document announces.
    Members {
        /// How many it announces.
        expected: u64,
        /// How many came.
        came: u64,
    },
    /// Something stands behind the document's end that is no part of it.
    Trailing {
        /// Its form.
        format: Format,
        /// Where that begins, in bytes.
        at: u64,
    },
    /// The document breaks the rules of its form.
    Malformed {
        /// Its form.
        format: Format,
        /// Where, in bytes.
        at: u64,
    },
    /// An exception stands in the midst of the document or at its tail: the server failed after it had begun to answer.
    Exception {
        /// Where it begins, in bytes.
        at: u64,
        /// The exception.
        exception: Box<ServiceException>,
    },
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("expected a document, and not one byte came"),
            Self::Length { expected, came } => {
                write!(
                    f,
                    "expected the {expected} bytes that were announced, {came} came"
                )
            }
            Self::Range { expected, came } => write!(
                f,
                "expected the bytes up to {expected}, those up to {came} came"
            ),
            Self::NotClosed { format, came } => write!(
                f,
                "{format} document: expected {}, and {came} bytes came without it",
                format.end()
            ),
            Self::Short {
                format,
                expected,
                came,
            } => write!(
                f,
                "{format} document: expected at least {expected} bytes by its own account, {came} came"
            ),
            Self::Members { expected, came } => {
                write!(
                    f,
                    "expected the {expected} members it announces, {came} came"
                )
            }
            Self::Trailing { format, at } => write!(
                f,
                "{format} document: expected nothing after its end, other content came at byte {at}"
            ),
            Self::Malformed { format, at } => {
                write!(f, "not well-formed {format} at byte {at}")
            }
            Self::Exception { at, exception } => {
                write!(f, "an exception in the document at byte {at}: {exception}")
            }
        }
    }
}

impl Error for Incomplete {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Exception { exception, .. } => Some(exception.as_ref()),
            _ => None,
        }
    }
}
