//! Chance without a generator: every draw is a function of the seed and of what it is drawn for, so that the order in
//! which requests happen to arrive changes nothing.

/// A number that depends on every byte of `what`.
pub(crate) fn hash(seed: u64, what: &[u8]) -> u64 {
    let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
    for byte in what {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(state)
}

/// The finalizer of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A uniform number in (0, 1).
pub(crate) fn unit(hash: u64) -> f64 {
    ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// A lognormal number with the given mean (not median) and the sigma of its logarithm.
pub(crate) fn lognormal(hash: u64, mean: f64, sigma: f64) -> f64 {
    let (radius, angle) = (unit(mix(hash ^ 1)), unit(mix(hash ^ 2)));
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    mean * (sigma * normal - sigma * sigma / 2.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lognormal_cost_has_the_mean_that_was_asked_for() {
        let n = 20_000;
        let sum: f64 = (0..n)
            .map(|i: u64| lognormal(hash(7, &i.to_le_bytes()), 3.0, 0.8))
            .sum();
        assert!((sum / n as f64 - 3.0).abs() < 0.1, "{}", sum / n as f64);
    }
}
