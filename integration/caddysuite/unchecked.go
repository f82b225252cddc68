package main

// exception is a function of the suite whose handlers get `health_protocol none`
// in the renamed copy, because their backend counts or judges every request
// that it gets, and so takes a health check for the request under test.
type exception struct {
	function string // the function that the config stands in
	reason   string
}

// unchecked lists the exceptions. There is no other kind: any other test that
// fails with the directive renamed shows a defect.
var unchecked = []exception{
	{
		function: "TestReverseProxyRetryMatchHeader",
		reason:   "asserts that the bad backend got exactly one request",
	},
	{
		function: "TestH2ToH2CStream",
		reason:   "the backend fails the test on any Host but the client's",
	},
	{
		function: "TestH2ToH1ChunkedResponse",
		reason:   "the backend fails the test on any Host but the client's",
	},
	{
		function: "setupListenerWrapperTest",
		reason: "one backend fails the test on any body but the client's, the other on any request: " +
			"TestHTTPRedirectWrapperWithLargeUpload, TestLargeHttpRequest",
	},
	{
		function: "TestReverseProxyRequestBodyTimeout",
		reason:   "the backend reports the length of the first body that it gets, which is to be that of the client",
	},
	{
		function: "TestReverseProxyUnlimitedRequestBuffersRespectMaxSize",
		reason:   "asserts that the backend got no complete request",
	},
}
