// Package opinion compares what no test can decide: several results of a subjective job, by majority, by a
// command, or by a model. It owns how opinions are asked and combined, and what they can never decide alone.
package opinion
