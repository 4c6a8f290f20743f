// Leases a model and compares every tensor in the leased memory with the file it came from, which
// is read here by other code than the daemon's.
//
//   tenure-verify --directory /run/tenure ranker/v3 /models/ranker-v3.safetensors

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/cpp/examples/safetensors_file.h"
#include "tenure/client.h"

namespace tenure::client {
namespace {

constexpr size_t kPiece = size_t{4} << 20;

// The first difference in words; empty if there is none.
std::string CompareBytes(const SafetensorsFile& file, const FileTensor& expected,
                         const WeightLease& lease, uint64_t offset) {
  std::vector<char> piece;
  std::vector<char> seen;
  for (size_t at = 0; at < expected.bytes; at += piece.size()) {
    piece.resize(std::min(kPiece, expected.bytes - at));
    seen.resize(piece.size());
    file.Read(expected.offset + at, piece);
    const absl::Status read =
        lease.CopyToHost(offset + at, std::as_writable_bytes(std::span(seen)));
    if (!read.ok()) return "cannot be read: " + std::string(read.message());
    const auto [in_file, in_memory] = std::mismatch(piece.begin(), piece.end(), seen.begin());
    if (in_file != piece.end()) {
      return "differs at byte " + std::to_string(at + static_cast<size_t>(in_file - piece.begin()));
    }
  }
  return {};
}

std::string Compare(const SafetensorsFile& file, const FileTensor& expected,
                    const WeightLease& lease) {
  const std::optional<Tensor> found = lease.Find(expected.name);
  if (!found) return "is not in the lease";
  if (found->dtype != expected.dtype) {
    return "has dtype " + std::string(found->dtype) + ", in the file " + expected.dtype;
  }
  if (!std::ranges::equal(found->shape, expected.shape))
    return "has another shape than in the file";
  if (found->bytes.size() != expected.bytes) {
    return "has " + std::to_string(found->bytes.size()) + " bytes, in the file " +
           std::to_string(expected.bytes);
  }
  return CompareBytes(file, expected, lease, found->offset);
}

struct Options {
  ConnectOptions connect;
  std::string name;
  std::vector<std::string> files;
  double hold_seconds = 0;
};

int Verify(const Options& options) {
  const absl::StatusOr<Client> client = Client::Connect(options.connect);
  if (!client.ok()) {
    std::cerr << "tenure-verify: " << client.status().message() << '\n';
    return 1;
  }
  absl::StatusOr<WeightLease> lease = client->Acquire({.name = options.name});
  if (!lease.ok()) {
    std::cerr << "tenure-verify: " << lease.status().message() << " ["
              << ErrorReason(lease.status()) << "]\n";
    return 1;
  }
  size_t tensors = 0;
  uint64_t bytes = 0;
  for (const std::string& path : options.files) {
    const SafetensorsFile file(path);
    for (const FileTensor& expected : file.tensors()) {
      if (const std::string difference = Compare(file, expected, *lease); !difference.empty()) {
        std::cout << "tensor " << expected.name << ' ' << difference << '\n';
        return 1;
      }
      ++tensors;
      bytes += expected.bytes;
    }
  }
  if (tensors != lease->tensor_count()) {
    std::cout << "the lease has " << lease->tensor_count() << " tensors, the files " << tensors
              << '\n';
    return 1;
  }
  std::cout << "verified " << tensors << " tensors, " << bytes << " bytes" << std::endl;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.hold_seconds));
  if (!lease->valid()) {
    std::cout << "the lease was lost: " << lease->lost_reason() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tenure::client

int main(int argc, char** argv) {
  tenure::client::Options options;
  CLI::App app("Compares a leased model with its file, byte by byte. Exits 1 if anything differs.");
  app.add_option("--directory", options.connect.directory,
                 "Where the daemon's sockets lie [$TENURE_DIR or /run/tenure]");
  app.add_option("--hold", options.hold_seconds, "Seconds to keep the lease afterwards");
  app.add_option("name", options.name, "The model's name")->required();
  app.add_option("file", options.files, "Its safetensors file, or all of its shards")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::client::Verify(options);
  } catch (const std::exception& error) {
    std::cerr << "tenure-verify: " << error.what() << '\n';
    return 1;
  }
}
