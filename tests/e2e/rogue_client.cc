#include "tests/e2e/rogue_client.h"

#include <signal.h>
#include <stdexcept>

#include "tests/client/eventually.h"

namespace tenure {

RogueClient::RogueClient(const Tenured& daemon, const std::string& model, const std::string& mode)
    : process_({ROGUE_CLIENT_PATH, daemon.directory(), model, mode}, temp_ / "rogue") {
  if (!Eventually([this] { return process_.Out() == "ready\n"; })) {
    throw std::runtime_error("the client did not get there: " + process_.Err());
  }
}

void RogueClient::Kill() {
  kill(process_.pid(), SIGKILL);
  process_.Wait();
}

}  // namespace tenure
