use super::*;

#[test]
fn good_answers_that_look_like_failures_stay_good() {
    let mut wrong = Vec::new();
    for (target, body) in GOOD {
        if let Finding::Exception(found) = read(target, 200, &[], body.as_bytes()) {
            wrong.push(format!("{target} {body}\n    {found:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn good_answers_stay_good_at_every_length() {
    for (target, body) in GOOD {
        for end in 1..body.len() {
            let finding = cut(target, &body.as_bytes()[..end]);
            assert_eq!(
                finding,
                Finding::Clean,
                "{target} {}",
                &body[..body.floor_char_boundary(end)]
            );
        }
    }
}

const GOOD: &[(&str, &str)] = &[
    (GET_MAP, "GIF89a\u{1}\0\u{1}\0"),
    (
        GET_CAPABILITIES,
        "<WMT_MS_Capabilities version='1.1.1'><Capability><Exception><Format>application/vnd.ogc.se_xml</Format></Exception></Capability></WMT_MS_Capabilities>",
    ),
    (
        GET_FEATURE,
        "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' xmlns:a='urn:a'><wfs:member><a:Exception exceptionCode='3'>x</a:Exception></wfs:member></wfs:FeatureCollection>",
    ),
    (
        GET_FEATURE,
        "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0'><!-- <ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows'/> --></wfs:FeatureCollection>",
    ),
    (
        GET_FEATURE,
        "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' xsi:schemaLocation='http://www.opengis.net/ows owsExceptionReport.xsd'><wfs:member/></wfs:FeatureCollection>",
    ),
    (
        GET_FEATURE,
        "<csw:GetRecordsResponse xmlns:csw='http://www.opengis.net/cat/csw/2.0.2'><dc:title>How to read a ServiceExceptionReport</dc:title></csw:GetRecordsResponse>",
    ),
    (
        GET_FEATURE,
        "<gml:FeatureCollection xmlns:gml='http://www.opengis.net/gml'/>",
    ),
    (
        GET_FEATURE,
        "--wfs\r\nContent-Type: text/xml\r\n\r\n<a/>\r\n--wfs--",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetFeatureInfo&info_format=text/plain",
        "Search returned no results: error 404, connection timed out\n",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetFeatureInfo&info_format=application/json",
        "no features were found",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetFeatureInfo&info_format=text/html",
        "<html><head><title>GetFeatureInfo output</title></head><body><table><tr><td>error</td><td>502</td></tr></table></body></html>",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetFeatureInfo&info_format=text/html",
        "<table class='x'><tr><th>status</th></tr></table>",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetFeatureInfo&info_format=text/xml",
        "<FeatureInfoResponse><FIELDS ERROR_CODE=\"0\" EXCEPTION=\"none\"/></FeatureInfoResponse>",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetMap&format=application/openlayers",
        "<!DOCTYPE html><html><head><title>OpenLayers map preview</title></head><body></body></html>",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetMap&format=image/svg%2Bxml",
        "<?xml version='1.0'?><!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'x'><svg xmlns='http://www.w3.org/2000/svg'/>",
    ),
    (
        "https://maps.example.org/ows?service=WMS&request=GetMap&format=application/atom%2Bxml",
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>Error log</title></feed>",
    ),
    (
        "https://maps.example.org/ows?service=WFS&request=GetFeature&typeNames=a&outputFormat=csv",
        "FID,error,message\na.1,timeout,Too many requests\n",
    ),
    (
        "https://maps.example.org/ows?service=WFS&request=GetFeature&typeNames=a&outputFormat=text/javascript",
        "parseResponse({\"type\":\"FeatureCollection\",\"features\":[]})",
    ),
    (
        GET_JSON,
        "{\"type\":\"FeatureCollection\",\"totalFeatures\":0,\"features\":[],\"crs\":null}",
    ),
    (GET_JSON, ""),
    (
        ITEMS,
        "{\"links\":[],\"numberMatched\":0,\"numberReturned\":0,\"features\":[],\"type\":\"FeatureCollection\",\"timeStamp\":\"2026\"}",
    ),
    (
        ITEMS,
        "{\"type\":\"Feature\",\"id\":1,\"properties\":{\"error\":\"none\",\"code\":404,\"exceptions\":[{\"code\":\"x\"}]},\"geometry\":null}",
    ),
    (
        "https://f.example.org/",
        "{\"title\":\"Errors of the past\",\"description\":\"an API\",\"links\":[{\"rel\":\"self\"}]}",
    ),
    (
        "https://f.example.org/api",
        "{\"openapi\":\"3.0.2\",\"info\":{\"title\":\"x\",\"version\":\"1\"},\"paths\":{},\"components\":{\"schemas\":{\"exception\":{\"type\":\"object\"}}}}",
    ),
    (
        "https://f.example.org/jobs/j",
        "{\"processID\":\"p\",\"jobID\":\"j\",\"status\":\"failed\",\"message\":\"connection timed out\",\"progress\":50}",
    ),
    (
        "https://f.example.org/jobs/j",
        "{\"jobID\":\"j\",\"type\":\"process\",\"status\":\"failed\",\"title\":\"failed\"}",
    ),
    (
        "https://f.example.org/processes/p/execution",
        "{\"id\":\"echo\",\"value\":\"error: timed out\"}",
    ),
    (
        STAC,
        "{\"type\":\"FeatureCollection\",\"features\":[],\"context\":{\"returned\":0}}",
    ),
    (
        "https://stac.example.org/collections/a",
        "{\"type\":\"Collection\",\"id\":\"a\",\"title\":\"Error catalogue\",\"description\":\"x\",\"license\":\"x\"}",
    ),
    (
        "https://stac.example.org/",
        "{\"type\":\"Catalog\",\"id\":\"a\",\"title\":\"t\",\"description\":\"Too many requests\"}",
    ),
    (
        "https://openeo.example.org/openeo/1.1/jobs/j",
        "{\"id\":\"j\",\"status\":\"error\",\"created\":\"2026\",\"process\":{}}",
    ),
    (
        "https://openeo.example.org/openeo/1.1/jobs/j/logs",
        "{\"logs\":[{\"id\":\"1\",\"level\":\"error\",\"message\":\"out of memory\"}],\"links\":[]}",
    ),
    (
        "https://openeo.example.org/openeo/1.1/validation",
        "{\"errors\":[]}",
    ),
    (
        ARCGIS,
        "{\"objectIdFieldName\":\"OBJECTID\",\"features\":[],\"exceededTransferLimit\":true}",
    ),
    (
        ARCGIS,
        "{\"jobId\":\"j\",\"jobStatus\":\"esriJobFailed\",\"messages\":[{\"type\":\"esriJobMessageTypeError\",\"description\":\"x\"}]}",
    ),
    (
        "https://gis.example.org/arcgis/admin/logs?f=json",
        "{\"status\":\"success\"}",
    ),
    (
        ARCGIS,
        "{\"currentVersion\":10.81,\"serviceDescription\":\"\",\"mapName\":\"Layers\",\"description\":\"error\",\"copyrightText\":\"\"}",
    ),
    (
        ARCGIS,
        "{\"addResults\":[{\"objectId\":1,\"success\":false,\"error\":{\"code\":1000,\"description\":\"x\"}}]}",
    ),
    (
        "https://gis.example.org/arcgis/rest/services",
        "<html><head><title>Folder: /</title></head><body>ArcGIS REST Services Directory <a href=\"/login\">Login</a></body></html>",
    ),
    (
        OVERPASS,
        "{\"version\":0.6,\"generator\":\"Overpass API\",\"osm3s\":{},\"elements\":[],\"remark\":\"runtime remark: Timeout is 25 and maxsize is 512.\"}",
    ),
    (
        OVERPASS,
        "{\"version\":0.6,\"elements\":[{\"type\":\"node\",\"id\":1,\"tags\":{\"remark\":\"runtime error: x\"}}]}",
    ),
    (
        "https://overpass.example.org/api/interpreter",
        "<osm version=\"0.6\" generator=\"Overpass API\"><node id='1'><tag k='remark' v='runtime error: x'/></node></osm>",
    ),
    (
        "https://overpass.example.org/api/status",
        "Connected as: 1\nCurrent time: 2026-03-14T09:30:00Z\nRate limit: 2\nSlot available after: 2026-03-14T09:31:00Z, in 60 seconds.\n",
    ),
    (NOMINATIM, "[]"),
    (
        NOMINATIM,
        "[{\"place_id\":1,\"display_name\":\"Error Street\"}]",
    ),
    (
        "https://geocode.example.org/status?format=json",
        "{\"status\":0,\"message\":\"OK\",\"data_updated\":\"2026\"}",
    ),
    ("https://geocode.example.org/status", "OK"),
    (
        "https://geocode.example.org/search?q=a&format=xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?><searchresults timestamp='x' querystring='error' more_url='x'></searchresults>",
    ),
    (
        "https://maps.example.com/maps/api/geocode/json?address=a",
        "{\"results\":[],\"status\":\"ZERO_RESULTS\"}",
    ),
    (
        "https://maps.example.com/maps/api/geocode/json?address=a",
        "{\"results\":[{}],\"status\":\"OK\"}",
    ),
    (
        "https://dev.example.net/REST/v1/Locations?q=a",
        "{\"resourceSets\":[{\"estimatedTotal\":0,\"resources\":[]}],\"statusCode\":200,\"statusDescription\":\"OK\",\"errorDetails\":[]}",
    ),
    (
        "https://api.example.com/geocoding/v1/address?location=a",
        "{\"info\":{\"statuscode\":0,\"messages\":[]},\"results\":[{}]}",
    ),
    (
        "https://api.example.com/geocode/v1/json?q=a",
        "{\"results\":[],\"status\":{\"code\":200,\"message\":\"OK\"},\"rate\":{\"limit\":2500,\"remaining\":2402,\"reset\":1402185600}}",
    ),
    (
        "https://geonames.example.org/searchJSON?q=a",
        "{\"totalResultsCount\":0,\"geonames\":[]}",
    ),
    (
        "https://geonames.example.org/search?q=a",
        "<geonames style=\"MEDIUM\"><totalResultsCount>1</totalResultsCount><geoname><name>a</name></geoname></geonames>",
    ),
    (
        "https://api.example.com/geocoding/v3/?address=a",
        "{\"status\":0,\"result\":{\"location\":{}}}",
    ),
    (
        "https://restapi.example.com/v3/geocode/geo?address=a",
        "{\"status\":\"1\",\"info\":\"OK\",\"infocode\":\"10000\",\"geocodes\":[]}",
    ),
    (
        "https://pelias.example.com/v1/search?text=a",
        "{\"geocoding\":{\"version\":\"0.2\",\"query\":{}},\"type\":\"FeatureCollection\",\"features\":[]}",
    ),
    (
        "https://router.example.com/route/v1/driving/1,2;3,4",
        "{\"code\":\"Ok\",\"routes\":[],\"waypoints\":[]}",
    ),
    (VECTOR_TILE, ""),
    (
        "https://tiles.example.org/a.json",
        "{\"tilejson\":\"2.2.0\",\"name\":\"error\",\"description\":\"x\",\"version\":\"1\",\"tiles\":[]}",
    ),
    (
        "https://f.example.org/news",
        "<!DOCTYPE html><html><head><title>News</title></head><body><h1>Service temporarily unavailable last week</h1></body></html>",
    ),
    (
        "https://f.example.org/docs",
        "<!DOCTYPE html><html><head><title>API documentation</title></head><body><h1>Error codes</h1><h2>502 Bad Gateway</h2></body></html>",
    ),
    (
        "https://f.example.org/atlas",
        "<html><head><title>500 Years of Maps</title></head><body></body></html>",
    ),
    (COG, "II*\0\u{8}\0\0\0"),
    (
        "https://maps.example.org/soap",
        "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Body><GetObservationResponse><note>Fault line</note></GetObservationResponse></s:Body></s:Envelope>",
    ),
    (
        "https://maps.example.org/wps?service=WPS&request=Execute",
        "<wps:ExecuteResponse xmlns:wps='http://www.opengis.net/wps/1.0.0'><wps:Status><wps:ProcessSucceeded/></wps:Status></wps:ExecuteResponse>",
    ),
    (
        "https://maps.example.org/wps?service=WPS&version=2.0.0&request=GetStatus&jobId=1",
        "<wps:StatusInfo xmlns:wps='http://www.opengis.net/wps/2.0'><wps:JobID>1</wps:JobID><wps:Status>Failed</wps:Status></wps:StatusInfo>",
    ),
    (
        "https://maps.example.org/wfs",
        "<wfs:TransactionResponse xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:TransactionSummary><wfs:totalInserted>1</wfs:totalInserted></wfs:TransactionSummary></wfs:TransactionResponse>",
    ),
    (
        "https://maps.example.org/wfs",
        "<wfs:WFS_TransactionResponse xmlns:wfs='http://www.opengis.net/wfs'><wfs:TransactionResult><wfs:Status><wfs:SUCCESS/></wfs:Status></wfs:TransactionResult></wfs:WFS_TransactionResponse>",
    ),
    (
        "https://example.org/graphql",
        "{\"data\":{\"a\":1},\"errors\":[{\"message\":\"x\"}]}",
    ),
    (
        "https://example.org/rpc",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3,\"error\":null}",
    ),
    (
        "https://maps.example.org/csw?mode=oaipmh",
        "<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><error code='noRecordsMatch'>none</error></OAI-PMH>",
    ),
    (
        "https://maps.example.org/csw?mode=oaipmh",
        "<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><ListRecords><record><metadata><error code='1'/></metadata></record></ListRecords></OAI-PMH>",
    ),
    (
        "https://titiler.example.org/healthz",
        "{\"status\":\"UP!\"}",
    ),
    ("https://titiler.example.org/healthz", "{\"status\":\"UP\"}"),
    (
        "https://titiler.example.org/cog/info?url=a.tif",
        "{\"bounds\":[1,2,3,4],\"nodata_type\":\"None\",\"colorinterp\":[\"gray\"],\"driver\":\"GTiff\"}",
    ),
    (
        "https://titiler.example.org/cog/viewer?url=a.tif",
        "<!DOCTYPE html>\n<html>\n<head><meta charset='utf-8' /><title>TiTiler - COG viewer</title></head><body><div id='loader'>Error: Unavailable</div></body></html>",
    ),
    (
        "https://titiler.example.org/cog/WebMercatorQuad/tilejson.json?url=a.tif",
        "{\"tilejson\":\"3.0.0\",\"name\":\"a.tif\",\"version\":\"1.0.0\",\"tiles\":[\"x\"],\"minzoom\":0}",
    ),
    (
        "https://titiler.example.org/cog/WebMercatorQuad/WMTSCapabilities.xml?url=a.tif",
        "<Capabilities xmlns=\"http://www.opengis.net/wmts/1.0\"><ows:ServiceIdentification/></Capabilities>",
    ),
    (
        "https://stac.example.org/api.html",
        "<!DOCTYPE html><html><head><title>stac-fastapi - Swagger UI</title></head><body></body></html>",
    ),
    (
        "https://stac.example.org/_mgmt/ping",
        "{\"message\":\"PONG\"}",
    ),
    (
        "https://stac.example.org/queryables",
        "{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"object\",\"title\":\"Queryables\",\"description\":\"x\",\"properties\":{\"error\":{}}}",
    ),
    (
        "https://f.example.org/processes/p",
        "{\"id\":\"p\",\"title\":\"Error model\",\"description\":\"d\",\"version\":\"1\",\"inputs\":{},\"outputs\":{}}",
    ),
    (
        "https://f.example.org/jobs/j?f=html",
        "<!doctype html><html><head><title>Job status - failed</title></head><body><h1>Job</h1></body></html>",
    ),
    (
        "https://f.example.org/collections/a/items?f=html",
        "<!doctype html><html><head><title>  </title></head><body><h1>cities</h1><p>Items in this collection: 8</p></body></html>",
    ),
    (
        "https://f.example.org/collections/a/items?f=html&bbox=1,2,3,4",
        "<!doctype html><html><head><title>a</title></head><body><p>No items</p></body></html>",
    ),
    (
        "https://maps.example.org/qgis?service=WMS&request=GetPrint&template=a&format=pdf",
        "%PDF-1.4\n",
    ),
    (
        "https://maps.example.org/qgis?service=WMS&request=GetStyles&layers=a",
        "<StyledLayerDescriptor xmlns='http://www.opengis.net/sld'/>",
    ),
    (
        "https://maps.example.org/ms?mode=browse&map=a.map",
        "<html><head><title>MapServer template</title></head><body><form><input type=\"image\"></form></body></html>",
    ),
    (
        "https://maps.example.org/wps?service=WPS&request=DescribeProcess&identifier=all",
        "<wps:ProcessDescriptions xmlns:wps='http://www.opengis.net/wps/1.0.0'><ProcessDescription><ows:Abstract>raises an ExceptionReport</ows:Abstract></ProcessDescription></wps:ProcessDescriptions>",
    ),
    (
        "https://maps.example.org/wps?service=WPS&request=Execute&identifier=a&rawdataoutput=out",
        "Hello error",
    ),
    (
        "https://maps.example.org/sos?service=SOS&request=GetObservation",
        "<om:ObservationCollection xmlns:om='http://www.opengis.net/om/1.0'/>",
    ),
    (
        "https://maps.example.org/thredds/wms/a.nc?service=WMS&request=GetMetadata&item=layerDetails",
        "{\"units\":\"K\",\"bbox\":[],\"moreInfo\":\"\",\"copyright\":\"\",\"title\":\"x\"}",
    ),
    (
        "https://maps.example.org/demo/?srs=EPSG:4326",
        "<html><head><title>MapProxy demo</title></head><body></body></html>",
    ),
    (
        "https://maps.example.org/wmts/a/g/1/2/3.geojson?",
        "{\"type\":\"FeatureCollection\",\"features\":[]}",
    ),
    (
        "https://tiles.example.org/grid/1/2/3.json",
        "grid({\"grid\":[],\"keys\":[\"\"],\"data\":{}})",
    ),
    (
        "https://example.org/page?q=1",
        "<html><head><title>Login</title></head><body><input type=password></body></html>",
    ),
    ("https://v.example.org/v1.1/Things/$count", "12"),
    (
        "https://v.example.org/v1.1/Things",
        "{\"@iot.count\":0,\"value\":[]}",
    ),
    (
        "https://v.example.org/ogc/edr/collections/a/position?coords=POINT(1%202)&f=CoverageJSON",
        "{\"type\":\"Coverage\",\"domain\":{}}",
    ),
    (
        "https://maps.example.org/ows?service=WCS&version=1.0.0&request=GetCoverage&coverage=a&format=image/x-aaigrid",
        "ncols        4\nnrows        6\nxllcorner    0.0\nyllcorner    0.0\ncellsize     50.0\n1 2 3 4\n",
    ),
];
