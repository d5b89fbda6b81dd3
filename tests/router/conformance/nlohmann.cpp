// What nlohmann's JSON for C++, the reader of llama.cpp, makes of a body: the value it holds and, of the members that
// are numbers or booleans, what llama.cpp gets when it asks for an int32_t or for a float (not yet cut to 32 bits).
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

using nlohmann::json;

// Returns a text for free_text, or null where the body is refused.
extern "C" char *read_body(const char *body, std::size_t length) {
    try {
        json seen = {{"value", json::parse(body, body + length)}, {"whole", json::object()}, {"real", json::object()}};
        if (seen["value"].is_object()) {
            for (const auto &[key, member] : seen["value"].items()) {
                if (member.is_number() || member.is_boolean()) {
                    seen["whole"][key] = member.get<std::int32_t>();
                    seen["real"][key] = member.is_boolean() ? member.get<bool>() : member.get<double>();
                }
            }
        }
        const std::string text = seen.dump();
        char *copy = static_cast<char *>(std::malloc(text.size() + 1));
        std::memcpy(copy, text.c_str(), text.size() + 1);
        return copy;
    } catch (const json::exception &) {
        return nullptr;
    }
}

extern "C" void free_text(char *text) { std::free(text); }
