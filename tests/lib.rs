//! Placeholder until the first target lands.
