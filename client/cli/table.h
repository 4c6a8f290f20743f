#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace tenure::cli {

enum class Align { kLeft, kRight };

// Rows under headings, each column as wide as its widest entry. Thread-compatible.
class Table {
 public:
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: one cell for each column.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void Print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Lines of a name and a value, the values under one another.
void PrintFields(std::ostream& out, const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace tenure::cli
