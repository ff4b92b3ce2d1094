//! The forms an answer's head can have: XML, JSON, a page, text. Scanned in place, without a copy, in linear time.

pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod xml;
