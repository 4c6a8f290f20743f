// emulated-gpu FOLDER: a machine with one emulated GPU in FOLDER, for tests that are not written in
// C++. Prints what a process needs in its environment, a NAME=VALUE a line and then an empty one.
// Carries out the lines that it reads, `lose` and `restore`, and answers each with `done`.

#include <iostream>
#include <string>

#include "tests/support/emulated_gpu.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: emulated-gpu FOLDER\n";
    return 2;
  }
  tenure::EmulatedGpu machine(argv[1]);
  for (const std::string& variable : machine.Environment()) std::cout << variable << '\n';
  std::cout << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "lose") {
      machine.LoseDevice(0);
    } else if (line == "restore") {
      machine.RestoreDevice(0);
    } else {
      std::cerr << "emulated-gpu knows no " << line << '\n';
      return 2;
    }
    std::cout << "done" << std::endl;
  }
  return 0;
}
