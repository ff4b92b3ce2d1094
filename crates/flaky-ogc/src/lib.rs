//! An OGC-speaking server on loopback with a renderer of real cost and scripted faults.
