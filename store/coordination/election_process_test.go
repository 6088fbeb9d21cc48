package coordination

import (
	"bufio"
	"context"
	"fmt"
	"time"
)

// leadOptions are for processes that are stopped longer than they lead.
var leadOptions = ElectionOptions{Lease: 600 * time.Millisecond}

// childLead leads whenever it can, and answers questions: "lead" waits for a term
// and tells its number; "write" writes as the last term that was told, waits for
// the end of its context, and tells whether the write was accepted and why it ended.
func childLead(path string, lines *bufio.Scanner) (string, error) {
	p, eng, _, err := onFile(path)
	if err != nil {
		return "", err
	}
	e, err := p.Election("leader", leadOptions)
	if err != nil {
		return "", err
	}
	type led struct {
		ctx  context.Context
		term Term
	}
	terms := make(chan led, 100)
	go func() {
		_ = e.Lead(context.Background(), func(ctx context.Context, t Term) error {
			terms <- led{ctx, t}
			<-ctx.Done()
			return nil
		})
	}()
	fmt.Println("standing")
	var now led
	for lines.Scan() {
		switch lines.Text() {
		case "lead":
			for now = <-terms; now.ctx.Err() != nil; now = <-terms {
			}
			fmt.Println(now.term.Number)
		case "write":
			accepted, err := fencedWrite(context.Background(), eng, now.term.Number)
			if err != nil {
				return "", err
			}
			<-now.ctx.Done()
			fmt.Println(accepted, context.Cause(now.ctx))
		}
	}
	return "", nil
}
