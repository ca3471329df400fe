package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServer is the first argument with which this binary is an MCP server over its standard input and output. The optional
// second one names how it fails at the start.
const mcpServer = "mcp-server"

func serveMCP(failure string) {
	switch failure {
	case "silent":
		time.Sleep(time.Hour)
	case "broken":
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(3)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	tool := func(name string, do func() string) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: do()}}}, nil, nil
		})
	}
	tool("look", look)
	tool("token", func() string { return "the token is " + os.Getenv("BANK_TOKEN") })
	tool("die", func() string { os.Exit(7); return "" })
	tool("flood", func() string {
		os.Stdout.WriteString(`{"jsonrpc":"2.0","id":1,"result":"`)
		os.Stdout.Write(bytes.Repeat([]byte("x"), 50<<20))
		return ""
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// look returns what a server finds where it runs, and delivers a file.
func look() string {
	var seen []string
	if _, err := os.Stat("nutshell.json"); err == nil {
		seen = append(seen, "the bundle")
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("GUILD_DELIVERY"), "looked.txt"), []byte("yes\n"), 0o644); err == nil {
		seen = append(seen, "the delivery")
	}
	if os.Getenv("API_KEY") != "" {
		seen = append(seen, "the key")
	}
	if _, err := os.ReadDir("/root"); err == nil {
		seen = append(seen, "a home directory")
	}
	if c, err := net.DialTimeout("tcp", os.Getenv("WEB"), time.Second); err == nil {
		c.Close()
		seen = append(seen, "the network")
	}
	return "it sees " + strings.Join(seen, ", ")
}
