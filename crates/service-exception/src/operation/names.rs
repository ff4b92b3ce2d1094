//! Operation names and what they do (facts: OGC 01-068r3, 06-042, 04-094, 09-025r2, 05-007r7, 07-006r1, 12-006).

use crate::Protocol;
use crate::kvp::Decoded;

/// An operation that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: &'static str,
    /// The protocol, where only one has an operation of this name.
    pub(super) protocol: Option<Protocol>,
    pub(super) safe: bool,
}

/// The operation of this name, in any case and percent-encoded or not.
pub(super) fn by_decoded(value: Decoded<'_>) -> Option<Name> {
    NAMES
        .iter()
        .find(|(name, ..)| value.eq_ignore_case(name))
        .map(|&(name, protocol, safe)| match name {
            // WMS 1.0.0 names, still answered by MapServer and MapProxy.
            "map" => Name {
                name: "GetMap",
                protocol,
                safe,
            },
            "capabilities" => Name {
                name: "GetCapabilities",
                protocol,
                safe,
            },
            "feature_info" => Name {
                name: "GetFeatureInfo",
                protocol,
                safe,
            },
            _ => Name {
                name,
                protocol,
                safe,
            },
        })
}

/// The operation of an XML element; `Get…Type` wrappers of SOAP toolkits count as well.
pub(super) fn by_element(local: &[u8]) -> Option<Name> {
    let name = [&b"RequestType"[..], b"Request", b"Type"]
        .iter()
        .find_map(|end| local.strip_suffix(*end))
        .unwrap_or(local);
    by_decoded(Decoded(local)).or_else(|| by_decoded(Decoded(name)))
}

/// The protocol of a `SERVICE` value or attribute.
pub(super) fn service(value: Decoded<'_>) -> Option<Protocol> {
    SERVICES
        .iter()
        .find(|(name, _)| value.eq_ignore_case(name))
        .map(|&(_, protocol)| protocol)
}

/// Whether an operation that is not known is named like one that changes something.
pub(super) fn sounds_like_a_change(value: &[u8]) -> bool {
    let mut small = [0; 24];
    let word = Decoded(value).copy_into(&mut small);
    CHANGES.iter().any(|change| {
        word.get(..change.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(change.as_bytes()))
    })
}

const SERVICES: &[(&str, Protocol)] = &[
    ("WMS", Protocol::Wms),
    ("WMTS", Protocol::Wmts),
    ("WMSC", Protocol::Wms),
    ("WMS-C", Protocol::Wms),
    ("TMS", Protocol::Tms),
    ("WFS", Protocol::Wfs),
    ("WCS", Protocol::Wcs),
    ("WPS", Protocol::Wps),
    ("CSW", Protocol::Csw),
    ("SOS", Protocol::Sos),
    ("SPS", Protocol::Sps),
];

const CHANGES: &[&str] = &[
    "Insert",
    "Update",
    "Delete",
    "Create",
    "Drop",
    "Put",
    "Set",
    "Add",
    "Remove",
    "Register",
    "Submit",
    "Cancel",
    "Start",
    "Stop",
    "Lock",
    "Unlock",
    "Release",
    "Renew",
    "Exec",
    "Run",
    "Harvest",
    "UnHarvest",
    "Trans",
    "Dismiss",
    "Publish",
    "Subscribe",
    "Unsubscribe",
    "Confirm",
    "Reserve",
    "Task",
    "Store",
    "Upload",
    "Import",
    "Purge",
    "Truncate",
    "Seed",
    "Reload",
];

use Protocol::{Csw, Sos, Sps, Wcs, Wfs, Wms, Wmts, Wps};

const NAMES: &[(&str, Option<Protocol>, bool)] = &[
    ("GetMap", Some(Wms), true),
    ("GetFeature", Some(Wfs), true),
    ("GetCapabilities", None, true),
    ("GetTile", Some(Wmts), true),
    ("GetFeatureInfo", None, true),
    ("GetCoverage", Some(Wcs), true),
    ("GetLegendGraphic", Some(Wms), true),
    ("DescribeFeatureType", Some(Wfs), true),
    ("DescribeCoverage", Some(Wcs), true),
    ("DescribeEOCoverageSet", Some(Wcs), true),
    ("DescribeLayer", Some(Wms), true),
    ("DescribeProcess", Some(Wps), true),
    ("DescribeRecord", Some(Csw), true),
    ("DescribeSensor", None, true),
    ("DescribeStoredQueries", Some(Wfs), true),
    ("DescribeDomains", Some(Wms), true),
    ("ListStoredQueries", Some(Wfs), true),
    ("GetPropertyValue", Some(Wfs), true),
    ("GetGmlObject", Some(Wfs), true),
    ("GetStyles", Some(Wms), true),
    ("GetPrint", Some(Wms), true),
    ("GetContext", Some(Wms), true),
    ("GetProjectSettings", Some(Wms), true),
    ("GetSchemaExtension", Some(Wms), true),
    ("GetHistogram", Some(Wms), true),
    ("GetMetadata", Some(Wms), true),
    ("GetTimeseries", Some(Wms), true),
    ("GetVerticalProfile", Some(Wms), true),
    ("GetTransect", Some(Wms), true),
    ("GetReport", Some(Wms), true),
    ("map", Some(Wms), true),
    ("capabilities", Some(Wms), true),
    ("feature_info", Some(Wms), true),
    ("GetRecords", Some(Csw), true),
    ("GetRecordById", Some(Csw), true),
    ("GetRepositoryItem", Some(Csw), true),
    ("GetDomain", Some(Csw), true),
    ("GetObservation", Some(Sos), true),
    ("GetObservationById", Some(Sos), true),
    ("GetFeatureOfInterest", Some(Sos), true),
    ("GetFeatureOfInterestTime", Some(Sos), true),
    ("GetResultTemplate", Some(Sos), true),
    ("GetDataAvailability", Some(Sos), true),
    ("DescribeFeatureOfInterest", Some(Sos), true),
    ("DescribeObservationType", Some(Sos), true),
    ("DescribeResultModel", Some(Sos), true),
    ("DescribeResult", Some(Sps), true),
    ("DescribeTasking", Some(Sps), true),
    ("DescribeResultAccess", Some(Sps), true),
    ("GetTask", Some(Sps), true),
    ("GetFeasibility", Some(Sps), false),
    ("GetStatus", None, true),
    ("GetResult", None, true),
    ("Transaction", None, false),
    ("Insert", None, false),
    ("Update", None, false),
    ("Delete", None, false),
    ("Replace", None, false),
    ("Native", Some(Wfs), false),
    ("LockFeature", Some(Wfs), false),
    ("GetFeatureWithLock", Some(Wfs), false),
    ("CreateStoredQuery", Some(Wfs), false),
    ("DropStoredQuery", Some(Wfs), false),
    ("PutStyles", Some(Wms), false),
    ("Execute", Some(Wps), false),
    ("Dismiss", Some(Wps), false),
    ("Harvest", Some(Csw), false),
    ("UnHarvest", Some(Csw), false),
    ("InsertCoverage", Some(Wcs), false),
    ("UpdateCoverage", Some(Wcs), false),
    ("DeleteCoverage", Some(Wcs), false),
    ("ProcessCoverages", Some(Wcs), true),
    ("InsertObservation", Some(Sos), false),
    ("InsertSensor", Some(Sos), false),
    ("RegisterSensor", Some(Sos), false),
    ("InsertResult", Some(Sos), false),
    ("InsertResultTemplate", Some(Sos), false),
    ("DeleteSensor", Some(Sos), false),
    ("DeleteObservation", Some(Sos), false),
    ("UpdateSensorDescription", None, false),
    ("Submit", Some(Sps), false),
    ("Update", Some(Sps), false),
    ("Cancel", Some(Sps), false),
    ("Reserve", Some(Sps), false),
    ("Confirm", Some(Sps), false),
];
