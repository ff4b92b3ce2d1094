//! Sizes of bodies of which a part was taken out before it is handed on.

use http_body::SizeHint;

/// What `rest` announces, and the `held` bytes that come before it.
pub(crate) fn with_held(rest: &SizeHint, held: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(held));
    if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(held)) {
        hint.set_upper(upper);
    }
    hint
}
