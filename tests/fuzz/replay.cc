// Gives a fuzzer every file of a corpus, once, with or without libFuzzer. What is accepted must be
// just the files named good_*.
//
//   replay DIRECTORY

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  int faults = paths.empty() ? 1 : 0;
  for (const std::filesystem::path& path : paths) {
    const std::string name = path.filename().string();
    // Printed first: an invariant that does not hold ends the process.
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(file), {});
    const bool accepted = tenure::AcceptsInput(input);
    if (!file || accepted != name.starts_with("good_")) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), accepted ? "accepted" : "refused or unread");
      ++faults;
    }
  }
  std::printf("%zu files\n", paths.size());
  return faults == 0 ? 0 : 1;
}
