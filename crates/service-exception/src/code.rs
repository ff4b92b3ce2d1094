//! Exception code or text to [`Disposition`](crate::Disposition).
