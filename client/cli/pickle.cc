#include "client/cli/pickle.h"

#include <utility>

namespace tenure::cli {
namespace {

// The opcodes of pickletools.
constexpr char kProtocol = '\x80';
constexpr char kMark = '(';
constexpr char kEmptyDictionary = '}';
constexpr char kSetItems = 'u';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kUnicode = 'X';
constexpr char kInt = 'J';
constexpr char kLong = '\x8a';
constexpr char kTrue = '\x88';
constexpr char kFalse = '\x89';
constexpr char kStop = '.';

void AddLittleEndian(std::string& bytes, uint64_t number, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

}  // namespace

PickleWriter::PickleWriter() : bytes_{kProtocol, 2} {}

void PickleWriter::BeginDictionary() { bytes_ += {kEmptyDictionary, kMark}; }
void PickleWriter::EndDictionary() { bytes_ += kSetItems; }
void PickleWriter::BeginList() { bytes_ += {kEmptyList, kMark}; }
void PickleWriter::EndList() { bytes_ += kAppends; }

void PickleWriter::String(std::string_view text) {
  bytes_ += kUnicode;
  AddLittleEndian(bytes_, text.size(), 4);
  bytes_ += text;
}

void PickleWriter::Int(int64_t number) {
  if (number >= INT32_MIN && number <= INT32_MAX) {
    bytes_ += kInt;
    AddLittleEndian(bytes_, static_cast<uint64_t>(number), 4);
  } else {
    bytes_ += {kLong, 8};
    AddLittleEndian(bytes_, static_cast<uint64_t>(number), 8);
  }
}

void PickleWriter::Bool(bool value) { bytes_ += value ? kTrue : kFalse; }

std::string PickleWriter::Finish() {
  bytes_ += kStop;
  return std::move(bytes_);
}

}  // namespace tenure::cli
