package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
)

// Open connects to a cluster, here one inside the process.
func ExampleOpen() {
	cluster, err := rqlitetest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e, err := client.Open(ctx, cluster.URLs())
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	if err := e.Define(ctx, []string{`CREATE TABLE IF NOT EXISTS pets (name TEXT PRIMARY KEY, legs INTEGER)`}); err != nil {
		log.Fatal(err)
	}
	add := engine.Statement{SQL: `INSERT INTO pets (name, legs) VALUES (?, ?)`, Args: []engine.Value{engine.Text("Rex"), engine.Int(4)}}
	results, err := e.Exec(ctx, []engine.Statement{add})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("added:", results[0].RowsAffected)

	_, err = e.Exec(ctx, []engine.Statement{add})
	var refused *engine.StatementError
	if errors.As(err, &refused) {
		fmt.Println("refused:", refused.Message)
	}
	// Output:
	// added: 1
	// refused: UNIQUE constraint failed: pets.name
}
