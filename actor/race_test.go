//go:build race

package actor

// raceEnabled scales down what the race detector makes slow, and turns off what
// it makes meaningless.
const raceEnabled = true
