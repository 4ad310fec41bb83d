export const name = "speech";
