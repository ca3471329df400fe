package replay_test
import ("testing";"strings";"time";"fmt";"guild/replay")
func TestZZ(t *testing.T){
 for _, part := range []string{" -u a:b","authorization: x ", "mycookie: a b ", "token=", "token=é", `token="a `, `token=\"a `, "password=[", "--token ", "eyJaaaaaaa.",
		"a://b:", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ","-----BEGIN A A", "AKIA", "aws ", "bearer ", `{"a":`, "[", "::::", "==", `\\\\"`, "secret: ", "x y z: ", "[redacted:", "passphrase: $A ",
	"passphrase=","passphrase:","mnemonic: x ", "cookie:", `passphrase:"`,`passphrase:\`, "--password -", "--password \\", " -p ", "sshpass -p ", "sshpass ", "--user ", "--user a:", "-u \"a:", "-u", " -u ", "login a password ", "login ", "<password>", "<password>a", "<passwordpassword", "aaaapassword", "sk-", "sk-ant-", "ghp_", "gh", "nsec1", "nsec1q", "cashuA", "eyJ", "eyJaaaaaa.aaaa.", "xoxb-", "hooks.slack.com/services/", "discord.com/api/webhooks/1", "hf_", "glpat-", "AIza", "hvs.", "12345678:AA", "1", "xprv", "a+", "a://", "://", "a://:", "bearer  ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/", "aws aA1/", "a=\"", "a:", "a: ", "password: ", "password:\t", "password:  \"\\", `"password":"\"`, `{"password":"a`, "\\", "\"", "`", "'\\", "$(", "${{", "password=$(", "password=${{", "[redacted:password]", "password=[redacted:password]", "password=[redacted:password]a", "-----END PRIVATE KEY-----", "private key-----BEGIN PRIVATE KEY-----\n", " ", "-", "--", "--a ", "--password", "--password a", "--api-key a:", "Digest ", "authorization: Digest ", "Cookie: a=", "\xff", "é", "password=\xff", "1{", "[{", "{\"password\":", "[\"a\",", "{\"https://u:p@h\":1},"} {
  s := strings.Repeat(part, (1<<17)/len(part))
  for _, pre := range []string{"", "curl ", "[\"", "{\"a\":\""} {
   b:=time.Now(); replay.RedactText(pre+s); d:=time.Since(b)
   if d>150*time.Millisecond { fmt.Printf("%v %q+%q\n", d.Round(time.Millisecond), pre, part) }
   if d > 5*time.Second {break}
  }
 }
}
