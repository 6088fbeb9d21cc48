// Package storetest is the conformance suite of storage engines. An engine that
// passes it can be given to [store.Open] and keeps every promise of package
// store, through its synchronous and its asynchronous face alike.
//
// A test of an engine is a function that opens one, and a call of [Run]: see the
// example. [RunEngine] is the first half by itself, which tests the engine
// without a store; [Benchmark] measures it.
//
// Each promise is a test of its own, whose name says it:
//
//	go test -run 'TestEngine/async/unknown_outcome'
//
// The suite plays the network's faults between the store and the engine: answers
// that get lost, requests that arrive twice or late. It uses no clock to make
// things happen, so it takes as long as the engine needs for some thousand
// transactions on some three hundred databases.
package storetest
