#include <iostream>
#include <tenure/client.h>

// The README's C++ example, as somebody else's program.
int main() {
  auto client = tenure::Client::Connect({.program = "ranker"});
  if (!client.ok()) {
    std::cout << tenure::ErrorReason(client.status()) << "\n";
    return 3;
  }
  auto lease = client->Acquire({.name = "ranker"});
  if (!lease.ok()) return 1;
  const auto weights = lease->Find("layers.0.weight");
  return weights.has_value() ? 0 : 2;
}
