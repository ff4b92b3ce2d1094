use load_control::Quotas;

/// What a call costs of each quota, in the order of the quotas; 1 of those beyond. As a request extension it beats the
/// layer's [`weight`](super::RateLimitLayer::weight) function.
///
/// ```
/// use tower_spatial::limit::rate::Weight;
///
/// // With a quota of requests and one of processing units: one request, 40 units.
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Weight::of([1, 40]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight([u32; Quotas::MOST]);

impl Weight {
    /// Of the first quotas. There are at most three; further weights have no meaning.
    pub fn of<const N: usize>(weights: [u32; N]) -> Self {
        let mut all = [1; Quotas::MOST];
        for (slot, weight) in all.iter_mut().zip(weights) {
            *slot = weight;
        }
        Self(all)
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self([1; Quotas::MOST])
    }
}
