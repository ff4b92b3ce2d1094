use std::time::Duration;

/// How long the successes of one host took: percentiles of the last 512 to 1 024 of them, in 0.6 KB.
///
/// Counts in buckets an eighth of an octave wide, from 1 ms to 10 min (what lies outside counts as the outermost), in two
/// halves: when the newer has 512, the older is forgotten. So a percentile is within 5 % of the true one, and a record
/// never has to be reset after a server became slower or faster.
///
/// ```
/// use std::time::Duration;
/// use load_control::LatencyRecord;
///
/// let mut record = LatencyRecord::default();
/// assert_eq!(record.percentile(0.5), None);
/// (1..=100).for_each(|n| record.add(Duration::from_millis(100 * n)));
/// let p99 = record.percentile(0.99).unwrap().as_secs_f64();
/// assert!((9.4..10.4).contains(&p99));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyRecord {
    newer: [u16; BUCKETS],
    older: [u16; BUCKETS],
    newer_count: u16,
    older_count: u16,
}

impl LatencyRecord {
    /// Counts one success.
    pub fn add(&mut self, latency: Duration) {
        self.add_to(bucket(latency));
    }

    /// The latency that a share `quantile` (0 to 1) of the successes did not exceed; `None` before the first.
    pub fn percentile(&self, quantile: f64) -> Option<Duration> {
        let count = self.count();
        let rank = (quantile.clamp(0.0, 1.0) * f64::from(count))
            .ceil()
            .max(1.0);
        let mut seen = 0.0;
        let counts = self.newer.iter().zip(&self.older);
        let at = counts.map(|(newer, older)| f64::from(*newer) + f64::from(*older));
        at.enumerate()
            .find(|(_, in_bucket)| {
                seen += in_bucket;
                seen >= rank
            })
            .map(|(index, _)| middle(index))
    }

    /// How many successes it knows of, at most 1 024.
    pub fn count(&self) -> u32 {
        u32::from(self.newer_count) + u32::from(self.older_count)
    }

    /// The buckets that are not empty, with their counts.
    pub(crate) fn export(&self) -> Vec<(u16, u16)> {
        let counts = self.newer.iter().zip(&self.older).map(|(n, o)| n + o);
        (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// The record that [`LatencyRecord::export`] wrote; whatever it could not have written is ignored.
    pub(crate) fn import(buckets: &[(u16, u16)]) -> Option<Box<Self>> {
        let mut record = Box::<Self>::default();
        for (bucket, count) in buckets {
            let bucket = usize::from(*bucket).min(BUCKETS - 1);
            (0..(*count).min(2 * HALF)).for_each(|_| record.add_to(bucket));
        }
        (record.count() > 0).then_some(record)
    }

    fn add_to(&mut self, bucket: usize) {
        if self.newer_count == HALF {
            self.older = std::mem::replace(&mut self.newer, [0; BUCKETS]);
            self.older_count = std::mem::take(&mut self.newer_count);
        }
        self.newer[bucket] += 1;
        self.newer_count += 1;
    }
}

impl Default for LatencyRecord {
    fn default() -> Self {
        Self {
            newer: [0; BUCKETS],
            older: [0; BUCKETS],
            newer_count: 0,
            older_count: 0,
        }
    }
}

fn bucket(latency: Duration) -> usize {
    let octaves = (latency.as_secs_f64() / SHORTEST).max(1.0).log2();
    ((octaves * PER_OCTAVE) as usize).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> Duration {
    Duration::from_secs_f64(SHORTEST * ((bucket as f64 + 0.5) / PER_OCTAVE).exp2())
}

/// Seconds.
const SHORTEST: f64 = 0.001;
const PER_OCTAVE: f64 = 8.0;
/// 19.2 octaves lie between 1 ms and 10 min.
const BUCKETS: usize = 154;
const HALF: u16 = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_percentile_is_within_five_percent(mut latencies in prop::collection::vec(1u64..600_000, 1..500), quantile in 0.0f64..1.0) {
            let mut record = LatencyRecord::default();
            latencies.iter().for_each(|ms| record.add(Duration::from_millis(*ms)));
            latencies.sort_unstable();
            let rank = ((quantile * latencies.len() as f64).ceil() as usize).max(1);
            let exact = latencies[rank - 1] as f64 / 1_000.0;
            let told = record.percentile(quantile).unwrap().as_secs_f64();
            prop_assert!((told / exact).ln().abs() < 0.05, "{} for {}", told, exact);
        }
    }

    #[test]
    fn what_is_older_than_1024_successes_is_forgotten() {
        let mut record = LatencyRecord::default();
        (0..5_000).for_each(|_| record.add(Duration::from_secs(60)));
        (0..1_024).for_each(|_| record.add(Duration::from_secs(1)));
        assert!(record.percentile(1.0).unwrap() < Duration::from_millis(1_100));
        assert!((512..=1_024).contains(&record.count()));
    }

    #[test]
    fn what_lies_outside_counts_as_the_outermost() {
        let mut record = LatencyRecord::default();
        record.add(Duration::ZERO);
        record.add(Duration::MAX);
        assert!(record.percentile(0.0).unwrap() < Duration::from_millis(2));
        assert!(record.percentile(1.0).unwrap() > Duration::from_secs(570));
    }

    #[test]
    fn nonsense_is_imported_as_far_as_it_makes_sense() {
        assert_eq!(LatencyRecord::import(&[]), None);
        let record = LatencyRecord::import(&[(u16::MAX, u16::MAX), (0, 1)]).unwrap();
        assert!(record.count() <= 1_024);
        let again = LatencyRecord::import(&record.export()).unwrap();
        assert_eq!(again.percentile(0.5), record.percentile(0.5));
    }

    #[test]
    fn it_takes_bounded_memory() {
        assert!(size_of::<LatencyRecord>() <= 640);
    }
}
