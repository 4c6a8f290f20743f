// buffer-holder DIRECTORY BYTES MODE: acquires so much runtime memory, says "ready" and waits for
// its end, as a process of its own that tests can stop and kill.
//
//   hold     nothing else
//   later    says "ready" first, once it has a pool, and acquires when SIGUSR1 comes
//   fork     a child, whose process id follows "ready", has inherited everything
//   write    writes to its buffer, again and again, until its pool is lost, and a while longer;
//            then says "lost", or "wrong" if somebody else wrote there, and what came of a new pool

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <signal.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tenure/client.h"

namespace {

// Whether this process's memory is the CPU's.
bool OnHost() {
  const char* const backend = std::getenv("TENURE_TEST_BACKEND");
  return backend == nullptr || std::string_view(backend) != "cuda";
}

std::string Outcome(const absl::Status& status) {
  return status.ok() ? "ok" : tenure::ErrorReason(status);
}

void Write(const tenure::Client& client, tenure::BufferPool pool, tenure::PoolBuffer buffer) {
  const uint64_t bytes = buffer.size_bytes();
  bool right = true;
  const auto write = [&](int round) {
    if (!OnHost()) return;
    const auto value = static_cast<std::byte>(1 + round % 9);
    memset(buffer.data(), static_cast<int>(value), bytes);
    for (uint64_t at = 0; at < bytes; at += 4096) right = right && buffer.data()[at] == value;
  };
  std::cout << "ready" << std::endl;
  int round = 0;
  while (buffer.valid()) write(round++);
  for (int i = 0; i < 300; ++i) {
    write(round++);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::cout << (right ? "lost " : "wrong ") << Outcome(pool.Acquire(1).status()) << std::endl;
  buffer.Release().IgnoreError();
  { const tenure::BufferPool gone = std::move(pool); }
  const auto next = client.OpenPool();
  const auto again = next.ok() ? next->Acquire(bytes) : next.status();
  std::cout << "again " << Outcome(again.status()) << std::endl;
  while (true) pause();
}

int Run(const std::vector<std::string>& arguments) {
  const uint64_t bytes = std::stoull(arguments[1]);
  const std::string& mode = arguments[2];
  // Blocked before any thread exists.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto client =
      tenure::Client::Connect({.directory = arguments[0], .program = "buffer-holder"});
  if (!client.ok()) {
    std::cerr << client.status() << std::endl;
    return 1;
  }
  auto pool = client->OpenPool();
  if (!pool.ok()) {
    std::cerr << pool.status() << std::endl;
    return 1;
  }
  if (mode == "later") {
    std::cout << "ready" << std::endl;
    int received = 0;
    sigwait(&signals, &received);
  }
  auto buffer = pool->Acquire(bytes);
  if (!buffer.ok()) {
    std::cerr << buffer.status() << std::endl;
    return 1;
  }
  if (mode == "write") Write(*client, *std::move(pool), *std::move(buffer));
  if (mode == "fork") {
    const pid_t child = fork();
    while (child == 0) pause();
    std::cout << "ready " << child << std::endl;
  } else {
    std::cout << "ready" << std::endl;
  }
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return Run(std::vector<std::string>(argv + 1, argv + argc));
}
