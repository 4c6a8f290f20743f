#include "tests/support/plan_instances.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tenure {

PlanInput ReadPlanInstance(const std::string& name) {
  std::ifstream file(TENURE_PLAN_INSTANCES "/" + name + ".csv");
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error("no planner instance " + name);
  PlanInput input;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    PlanBuffer buffer;
    std::getline(fields, buffer.id, ',');
    char comma = 0;
    Step end = 0;
    uint64_t size = 0;
    fields >> buffer.first_use >> comma >> end >> comma >> size;
    buffer.end = end;
    buffer.size = Bytes(size);
    if (!fields) throw std::runtime_error("a line of " + name + " that is no buffer: " + line);
    input.push_back(std::move(buffer));
  }
  return input;
}

std::vector<std::string> TightPlanInstances() {
  std::vector<std::string> names;
  for (char letter = 'A'; letter <= 'K'; ++letter) {
    names.push_back(std::string("minimalloc/") + letter + ".1048576");
  }
  return names;
}

}  // namespace tenure
