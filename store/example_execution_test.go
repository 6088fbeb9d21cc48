package store_test

import (
	"encoding/json"
	"fmt"

	"github.com/quorate/quorate/store"
)

// An Object keeps what it is not asked to change, to the letter.
func ExampleObject() {
	o, err := store.ParseObject(`{"id": 9007199254740993, "price": 1.50, "note": "<a> \u00e9"}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	before := o // a copy, which never changes

	if err := o.Set("price", 2); err != nil {
		fmt.Println(err)
		return
	}
	if err := o.Set("tags", []string{"new", "<b>"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.Raw())
	fmt.Println(before.Raw())

	var id json.Number
	found, err := o.Get("id", &id)
	fmt.Println(id, found, err)
	// Output:
	// {"id":9007199254740993,"price":2,"note":"<a> \u00e9","tags":["new","<b>"]}
	// {"id":9007199254740993,"price":1.50,"note":"<a> \u00e9"}
	// 9007199254740993 true <nil>
}

// An Execution that was decoded keeps the fields it does not know, and the text
// of those that were not changed.
func ExampleExecution() {
	const text = `{"id":"order-1","definition_id":"checkout","status":"RUNNING",` +
		`"context":{"total":12.50},"x-owner":{"team":"payments"},"version":3}`
	var e store.Execution
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		fmt.Println(err)
		return
	}

	e.Status = store.StatusDone
	e.Outcome = "paid"
	if err := e.Context.Set("receipt", "R-17"); err != nil {
		fmt.Println(err)
		return
	}

	out, err := e.MarshalJSON()
	fmt.Println(string(out), err)
	// Output:
	// {"id":"order-1","definition_id":"checkout","status":"DONE","context":{"total":12.50,"receipt":"R-17"},"x-owner":{"team":"payments"},"version":3,"outcome":"paid"} <nil>
}
